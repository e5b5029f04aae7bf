"""Deterministic work with many kinds of state, for the random checkpoint test (machine 22.6).

`step(n)` does one operation that depends only on the state and on `n`; `digest()` describes all of the state without
changing it.
"""

import array
import asyncio
import bz2
import collections
import ctypes
import gc
import hashlib
import itertools
import lzma
import mmap
import os
import random
import shutil
import sqlite3
import sys
import weakref
import zlib

ROOT = "/home/user/work"


class Node:
    """Member of reference cycles, also weakly referenced."""

    def __init__(self, value):
        self.value = value
        self.self = self
        self.next = None


def counter(start):
    total = start
    while True:
        step_by = yield total
        total += step_by or 1


def adder(amount):
    calls = 0

    def add(value):
        nonlocal calls
        calls += 1
        return value + amount + calls

    return add


Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)


class Machine:
    def __init__(self):
        self.log = []
        self.numbers = list(range(10))
        self.table = {}
        self.ordered = collections.OrderedDict()
        self.queue = collections.deque(maxlen=50)
        self.generators = []
        self.iterators = []
        self.functions = []
        self.files = {}
        self.removed = []
        self.duplicates = []
        self.nodes = []
        self.weak = weakref.WeakValueDictionary()
        self.buffers = []
        self.arrays = array.array("q")
        self.hashes = [hashlib.sha256(), hashlib.md5()]
        self.compressors = []
        self.callbacks = []
        self.mapped = None
        self.serial = 0
        self.random = random.Random(11)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create table t(a integer, b text)")
        self.disk = None
        self.loop = None
        self.tasks = []
        self.results = []
        os.makedirs(ROOT, exist_ok=True)

    # Each operation takes the seed of the step.

    def numbers_op(self, n):
        self.numbers[n % len(self.numbers)] ^= n
        self.numbers.append(n * n % 1009)
        if len(self.numbers) > 200:
            del self.numbers[:50]

    def table_op(self, n):
        for i in range(n % 300):
            self.table[f"k{(n * 31 + i) % 700}"] = (n, i, str(i) * (i % 7))
        for key in list(self.table)[: n % 100]:
            del self.table[key]
        self.ordered[n] = n
        if len(self.ordered) > 20:
            self.ordered.popitem(last=False)
        self.queue.append(n)

    def generator_op(self, n):
        if len(self.generators) < 5:
            made = counter(n)
            next(made)
            self.generators.append(made)
        self.log.append(self.generators[n % len(self.generators)].send(n % 13))
        if len(self.iterators) < 5:
            self.iterators.append(zip(itertools.count(n), itertools.cycle("abc")))
        self.log.append(next(self.iterators[n % len(self.iterators)]))

    def function_op(self, n):
        self.functions.append(adder(n))
        self.log.append(self.functions[n % len(self.functions)](n))
        del self.functions[:-8]

    def file_open(self, n):
        name = f"{ROOT}/f{n % 12}"
        if name in self.files:
            self.files.pop(name).close()
        self.files[name] = open(name, ["w+", "a+", "w+"][n % 3], buffering=[-1, 200, 4000][n % 3])

    def file_write(self, n):
        for i, name in enumerate(sorted(self.files)):
            if (n >> i) & 1:
                self.files[name].write(f"{n}:{name}\n" * (n % 40))

    def file_seek(self, n):
        for name in sorted(self.files)[: n % 3]:
            self.files[name].seek(n % 200)
            self.log.append(self.files[name].read(20))
            self.files[name].seek(0, 2)

    def file_raw(self, n):
        name = f"{ROOT}/raw{n % 5}"
        fd = os.open(name, os.O_RDWR | os.O_CREAT)
        os.lseek(fd, n % 5000, 0)
        os.write(fd, bytes([n % 256]) * (n % 3000))
        if n % 4 == 0:
            os.ftruncate(fd, n % 4000)
        os.close(fd)

    def file_large(self, n):
        name = f"{ROOT}/large"
        with open(name, "r+b" if os.path.exists(name) else "w+b") as file:
            file.seek((n * 7919) % 3_000_000)
            file.write(bytes([n % 251]) * 1000)

    def file_move(self, n):
        names = sorted(os.listdir(ROOT))
        if not names:
            return
        source = f"{ROOT}/{names[n % len(names)]}"
        kind = n % 5
        if kind == 0 and source not in self.files:
            os.rename(source, f"{ROOT}/f{n % 12}" if not os.path.isdir(source) and f"{ROOT}/f{n % 12}" not in self.files else source)
        elif kind == 1 and os.path.isfile(source):
            os.unlink(source)
            if source in self.files:
                self.removed.append(self.files.pop(source))
                for old in self.removed[:-3]:
                    old.close()
                del self.removed[:-3]
        elif kind == 2:
            tree = f"{ROOT}/tree{n % 3}"
            os.makedirs(f"{tree}/a/b{n % 4}", exist_ok=True)
            with open(f"{tree}/a/leaf{n % 6}", "w") as leaf:
                leaf.write(str(n))
        elif kind == 3:
            shutil.rmtree(f"{ROOT}/tree{n % 3}", ignore_errors=True)
        else:
            os.chmod(source, 0o600 + n % 64)
            os.utime(source, (n, n + 0.5))
            link = f"{ROOT}/link{n % 4}"
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(source, link)

    def removed_op(self, n):
        for file in self.removed:
            file.write(f"<{n}>")
            file.flush()

    def duplicate_op(self, n):
        fd = os.open(f"{ROOT}/raw{n % 5}", os.O_RDWR | os.O_CREAT)
        self.duplicates.append((fd, os.dup(fd)))
        for one, two in self.duplicates:
            os.lseek(one, n % 100, 0)
            self.log.append(os.read(two, 5))
        while len(self.duplicates) > 3:
            for fd in self.duplicates.pop(0):
                os.close(fd)

    def directory_op(self, n):
        os.chdir([ROOT, "/home/user", "/tmp"][n % 3])

    def node_op(self, n):
        node = Node(n)
        if self.nodes:
            node.next = self.nodes[n % len(self.nodes)]
        self.nodes.append(node)
        self.weak[n % 30] = node
        if len(self.nodes) > 20:
            del self.nodes[:10]
            del node
            gc.collect()

    def buffer_op(self, n):
        self.buffers.append(bytearray((n % 97 + 1) * 20_000))
        self.buffers[-1][n % 1000 :: 4096] = bytes([n % 256]) * len(self.buffers[-1][n % 1000 :: 4096])
        if len(self.buffers) > 4:
            del self.buffers[0]
        self.arrays.extend(range(n % 500))
        if len(self.arrays) > 5000:
            del self.arrays[:3000]

    def grow_op(self, n):
        self.buffers.append(bytearray(12_000_000 + n))
        if len(self.buffers) > 4:
            del self.buffers[0]

    def hash_op(self, n):
        self.hashes[n % 2].update(str(n).encode())
        maker = [zlib.compressobj, bz2.BZ2Compressor, lzma.LZMACompressor][n % 3]
        self.compressors.append([maker(), b""])
        for entry in self.compressors:
            entry[1] += entry[0].compress(str(n).encode() * 50)
        if len(self.compressors) > 4:
            entry = self.compressors.pop(0)
            self.log.append(zlib.crc32(entry[1] + entry[0].flush()))

    def database_op(self, n):
        db = self.database
        db.executemany("insert into t values(?,?)", [(n + i, "x" * (i % 20)) for i in range(n % 60)])
        if n % 4 == 0:
            db.commit()
        elif n % 4 == 1:
            db.rollback()
        if n % 7 == 0:
            if self.disk is None:
                self.disk = sqlite3.connect("/home/user/disk.db")
                self.disk.execute("create table if not exists d(a integer)")
            self.disk.execute("insert into d values(?)", (n,))
            if n % 2:
                self.disk.commit()

    def callback_op(self, n):
        base = n % 100
        self.callbacks.append(Callback(lambda a, b: a * base + b))
        if len(self.callbacks) > 6:
            del self.callbacks[n % 6]
        self.log.append(self.callbacks[n % len(self.callbacks)](n % 10, 3))

    def mapped_op(self, n):
        name = f"{ROOT}/mapped"
        if self.mapped is None:
            with open(name, "wb") as file:
                file.write(bytes(70_000))
            # The engine writes a mapping back through the descriptor that it was made with.
            self.mapped_file = open(name, "r+b")
            self.mapped = mmap.mmap(self.mapped_file.fileno(), 70_000)
        self.mapped[n % 70_000] = n % 256
        if n % 2:
            self.mapped.flush()

    def random_op(self, n):
        self.log.append(self.random.random())
        random.seed(n)
        self.log.append(random.randrange(1000))

    def import_op(self, n):
        name = ["colorsys", "wave", "mailbox", "turtledemo", "cmd", "difflib", "xml.dom.minidom", "shelve"][n % 8]
        try:
            __import__(name)
        except ImportError:
            pass

    def deep_op(self, n):
        def down(k):
            return down(k + 1)

        try:
            down(0)
        except RecursionError:
            self.serial += 1

    def task_op(self, n):
        async def work(k):
            for i in range(k % 4):
                await asyncio.sleep(0)
                self.results.append((k, i))
            return k

        async def turn():
            await asyncio.sleep(0)

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        self.tasks.append(self.loop.create_task(work(n)))
        self.loop.run_until_complete(turn())
        self.tasks = [task for task in self.tasks if not task.done()]
        del self.results[:-40]

    def describe(self):
        yield repr(self.log)
        yield repr((self.numbers, sorted(self.table.items()), list(self.ordered), list(self.queue), self.serial))
        yield repr([g.gi_frame.f_locals for g in self.generators])
        yield repr([repr(i) is not None for i in self.iterators])
        yield repr([(f.__closure__[0].cell_contents, f.__closure__[1].cell_contents) for f in self.functions])
        yield repr([(name, f.closed, os.lseek(f.fileno(), 0, 1), f.line_buffering) for name, f in sorted(self.files.items())])
        yield repr([os.pread(f.fileno(), 5000, 0) for f in self.removed])
        yield repr([(os.lseek(a, 0, 1), os.lseek(b, 0, 1)) for a, b in self.duplicates])
        yield repr([(n.value, n.self is n, n.next and n.next.value) for n in self.nodes])
        yield repr(sorted((k, v.value) for k, v in self.weak.items()))
        yield repr([zlib.crc32(b) for b in self.buffers] + [zlib.crc32(self.arrays)])
        yield repr([h.hexdigest() for h in self.hashes])
        yield repr([entry[1] for entry in self.compressors])
        yield repr((self.database.in_transaction, self.database.execute("select count(*), sum(a) from t").fetchall()))
        yield repr(self.database.execute("pragma integrity_check").fetchall())
        if self.disk is not None:
            yield repr((self.disk.in_transaction, self.disk.execute("select count(*), sum(a) from d").fetchall()))
        yield repr([c(2, 3) for c in self.callbacks])
        yield repr(self.mapped and zlib.crc32(self.mapped))
        yield repr((self.random.getstate(), random.getstate()))
        yield repr((len(self.tasks), self.results))
        yield repr(os.getcwd())
        yield repr(sorted(sys.modules))
        yield from self.tree("/home/user")

    def tree(self, path):
        for entry in os.scandir(path):
            info = entry.stat(follow_symlinks=False)
            yield repr((entry.path, info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
            if entry.is_symlink():
                yield os.readlink(entry.path)
            elif entry.is_dir():
                yield from self.tree(entry.path)
            else:
                fd = os.open(entry.path, os.O_RDONLY)
                yield str(zlib.crc32(os.read(fd, info.st_size)))
                os.close(fd)


OPERATIONS = [name for name in vars(Machine) if name.endswith("_op") or name.startswith("file_")]
machine = Machine()


def step(n):
    name = OPERATIONS[n * 7 % len(OPERATIONS)]
    if name == "grow_op" and n % 5:
        name = "buffer_op"
    getattr(machine, name)(n)
    del machine.log[:-60]
    return name


def digest():
    return hashlib.sha256("\n".join(machine.describe()).encode()).hexdigest()


def details():
    return [hashlib.sha256(line.encode()).hexdigest()[:8] + " " + line[:300] for line in machine.describe()]
