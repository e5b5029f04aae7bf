"""Two requests at a time with asyncio, and a picture.

python asynchronous.py machine.json
"""

from __future__ import annotations

import asyncio
import sys

from pyprocControl import AsyncPyProcClient

SQUARE = """
import pyproc
class Square:
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
pyproc.display(Square())
"""


async def main(config: str) -> None:
    async with await AsyncPyProcClient.start(config) as client:
        first, second = await asyncio.gather(client.runPython("1 + 1"), client.runPython("2 + 2"))
        print(first.output["value"], second.output["value"])
        shown = await client.runPython(SQUARE)
        for picture in shown.attachments:
            print(picture.kind, picture.mimeType, picture.byteLength)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
