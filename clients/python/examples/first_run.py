"""Runs Python and prints what came of it.

python first_run.py machine.json
"""

from __future__ import annotations

import sys

from pyprocControl import ControlError, PyProcClient


def main(config: str) -> None:
    with PyProcClient.start(config) as client:
        client.runPython("numbers = [n * n for n in range(10)]")
        result = client.runPython("print('squares'); sum(numbers)")
        print(result.output["stdout"], end="")
        print(result.output["value"])
        try:
            client.runPython("numbers[99]")
        except ControlError as error:
            print(error.code, error.outcome)


if __name__ == "__main__":
    main(sys.argv[1])
