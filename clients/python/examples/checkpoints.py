"""Saves the machine before a risky attempt and goes back after it failed.

python checkpoints.py machine.json
"""

from __future__ import annotations

import sys

from pyprocControl import ControlError, PyProcClient


def main(config: str) -> None:
    with PyProcClient.start(config) as client:
        client.runPython("data = {'rows': [1, 2, 3]}")
        saved = client.saveCheckpoint().output["index"]
        try:
            client.runPython("data['rows'].clear()\nraise RuntimeError('half done')")
        except ControlError:
            client.restoreCheckpoint(saved)
        print(client.runPython("data").output["value"])


if __name__ == "__main__":
    main(sys.argv[1])
