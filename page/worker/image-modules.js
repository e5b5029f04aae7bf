/**
 * Modules that are loaded into the boot image (machine 5.2): none draws entropy at import except `random`, opens
 * anything or captures the environment.
 */
export const IMAGE_MODULES = Object.freeze(
  (
    "random json re asyncio ast traceback linecache os sys io time collections functools itertools math datetime " +
    "dataclasses typing enum contextlib pathlib hashlib base64 string textwrap inspect types copy operator statistics " +
    "decimal fractions csv struct shutil tempfile uuid secrets logging warnings abc heapq bisect argparse urllib.parse " +
    "zipfile glob fnmatch pprint unicodedata calendar zoneinfo queue threading"
  ).split(" "),
);
