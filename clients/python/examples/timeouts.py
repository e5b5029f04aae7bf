"""Stops code that runs too long; the machine goes on with its state.

python timeouts.py machine.json
"""

from __future__ import annotations

import sys

from pyprocControl import ControlError, PyProcClient


def main(config: str) -> None:
    with PyProcClient.start(config) as client:
        client.runPython("steps = 0")
        try:
            client.runPython("while True: steps += 1", timeout=1.0)
        except ControlError as error:
            print(error.code, error.outcome)
        print(client.runPython("steps > 0").output["value"])


if __name__ == "__main__":
    main(sys.argv[1])
