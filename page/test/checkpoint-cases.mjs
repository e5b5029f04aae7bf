// Cases 11 to 24 of machine 23: what is set up before the save, what happens after it, and what a restore must show.

/** @typedef {{name: string, setup: string, change: string, look: string, expect: string}} Case */

/** @type {Case[]} */
export const CASES = [
  {
    name: "variables and a generator in the middle of its work",
    setup: "x = 1; g = (i * i for i in range(100)); [next(g) for _ in range(3)]",
    change: "x = 2; [next(g) for _ in range(5)]; del g",
    look: "(x, next(g))",
    expect: "(1, 9)",
  },
  {
    name: "a file with unflushed text that is closed and removed later",
    setup: "f = open('/tmp/a.txt', 'w+'); f.write('flushed'); f.flush(); f.write(' pending')",
    change: "import os; f.write(' late'); f.close(); os.remove('/tmp/a.txt')",
    look: "(f.closed, f.tell(), f.seek(0), f.read(), __import__('os').path.exists('/tmp/a.txt'))",
    expect: "(False, 15, 0, 'flushed pending', True)",
  },
  {
    name: "a duplicated descriptor that shares its offset",
    setup:
      "import os; a = os.open('/tmp/d', os.O_RDWR | os.O_CREAT); os.write(a, b'0123456789'); b = os.dup(a); os.lseek(a, 2, 0)",
    change: "os.lseek(b, 9, 0); os.close(a); os.close(b); c = os.open('/tmp/other', os.O_CREAT)",
    look: "(os.lseek(b, 0, 1), os.lseek(a, 5, 0), os.read(b, 2), os.lseek(a, 0, 1))",
    expect: "(2, 5, b'56', 7)",
  },
  {
    name: "files beside closed pipes and sockets",
    setup:
      "import os, socket; socket.socket().close(); ends = os.pipe(); [os.close(e) for e in ends]; " +
      "[open(f'/tmp/kept{i}', 'w').close() for i in range(50)]; socket.socket().close()",
    change: "socket.socket().close(); [os.remove(f'/tmp/kept{i}') for i in range(50)]; [os.close(e) for e in os.pipe()]",
    look: "sum(os.path.exists(f'/tmp/kept{i}') for i in range(50)), len(os.listdir('/tmp'))",
    expect: "(50, 50)",
  },
  {
    name: "an open file without a name",
    setup: "import os; f = open('/tmp/gone', 'w+b'); f.write(b'still here'); f.flush(); os.unlink('/tmp/gone')",
    change: "f.seek(0); f.write(b'XXXXX'); f.close()",
    look: "(f.seek(0), f.read(), os.path.exists('/tmp/gone'), os.fstat(f.fileno()).st_size)",
    expect: "(0, b'still here', False, 10)",
  },
  {
    name: "an open file in a removed directory",
    setup: "import os, shutil; os.mkdir('/tmp/dir'); f = open('/tmp/dir/x', 'w+'); f.write('inside'); f.flush(); shutil.rmtree('/tmp/dir')",
    change: "f.close(); os.mkdir('/tmp/dir'); open('/tmp/dir/x', 'w').close()",
    look: "(f.seek(0), f.read(), os.path.exists('/tmp/dir'))",
    expect: "(0, 'inside', False)",
  },
  {
    name: "a tree with modes, times, inodes, links and the working directory",
    setup: `
import os
def listing(top):
    rows = []
    for entry in sorted(os.scandir(top), key=lambda e: e.name):
        s = entry.stat(follow_symlinks=False)
        rows.append((entry.path, s.st_ino, oct(s.st_mode), s.st_size, s.st_mtime_ns, s.st_ctime_ns))
        if entry.is_symlink():
            rows.append(os.readlink(entry.path))
        elif entry.is_dir():
            rows += listing(entry.path)
        else:
            rows.append(open(entry.path, 'rb').read())
    return rows
os.makedirs('/tmp/tree/a/b'); os.makedirs('/tmp/tree/empty')
for i in range(20):
    open(f'/tmp/tree/a/f{i}', 'w').write(str(i) * i)
os.chmod('/tmp/tree/a/f3', 0o640); os.utime('/tmp/tree/a/f4', (5, 6)); os.symlink('a/f5', '/tmp/tree/link')
os.chdir('/tmp/tree/a'); kept = (listing('/tmp/tree'), os.listdir('/tmp/tree/a'))`,
    change: `
import shutil
os.rename('/tmp/tree/a/f1', '/tmp/tree/moved'); os.truncate('/tmp/tree/a/f9', 2); os.unlink('/tmp/tree/link')
os.symlink('nowhere', '/tmp/tree/link'); os.chmod('/tmp/tree/a/f3', 0o777); os.chdir('/tmp')
os.rename('/tmp/tree/a', '/tmp/tree/z'); shutil.rmtree('/tmp/tree'); os.makedirs('/tmp/tree/a/new')`,
    look: "((listing('/tmp/tree'), os.listdir('/tmp/tree/a')) == kept, os.getcwd(), open('f7').read())",
    expect: "(True, '/tmp/tree/a', '7777777')",
  },
  {
    name: "a file that is edited in place after the save",
    setup: "open('/tmp/e', 'w').write('original' * 10)",
    change: "h = open('/tmp/e', 'r+'); h.write('CHANGED!'); h.close(); h = open('/tmp/e', 'a'); h.write('more'); h.close()",
    look: "open('/tmp/e').read() == 'original' * 10",
    expect: "True",
  },
  {
    name: "a directory that is being read",
    setup: "import os; os.mkdir('/tmp/many'); [open(f'/tmp/many/{i:03}', 'w').close() for i in range(200)]; it = os.scandir('/tmp/many'); first = [next(it).name for _ in range(50)]",
    change: "rest = [e.name for e in it]; [os.unlink(f'/tmp/many/{i:03}') for i in range(200)]",
    look: "(len(first), len(set(first) | {e.name for e in it}))",
    expect: "(50, 200)",
  },
  {
    name: "a module that is imported after the save",
    setup: "import sys; before = 'colorsys' in sys.modules",
    change: "import colorsys; colorsys.marker = 1",
    look: "(before, 'colorsys' in sys.modules, hasattr(__import__('colorsys'), 'marker'))",
    expect: "(False, False, False)",
  },
  {
    name: "a database with an open transaction",
    setup:
      "import sqlite3; db = sqlite3.connect('/tmp/db'); db.execute('create table t(a)'); db.commit(); db.executemany('insert into t values(?)', [(i,) for i in range(500)])",
    change: "db.rollback(); db.execute('drop table t'); db.commit(); db.close()",
    look:
      "(db.in_transaction, db.execute('select count(*) from t').fetchone(), db.execute('pragma integrity_check').fetchone(), db.rollback(), db.execute('select count(*) from t').fetchone())",
    expect: "(True, (500,), ('ok',), None, (0,))",
  },
  {
    name: "a mapped file that is changed after the save",
    setup:
      "import mmap; open('/tmp/m', 'wb').write(bytes(100000)); mf = open('/tmp/m', 'r+b'); m = mmap.mmap(mf.fileno(), 100000); m[5] = 7; m.flush()",
    change: "m[5] = 9; m[99999] = 1; m.flush(); m.close(); mf.close()",
    look: "(m[5], m[99999], open('/tmp/m', 'rb').read()[5])",
    expect: "(7, 0, 7)",
  },
  {
    name: "callbacks that are freed while others are made",
    setup: "import ctypes, gc; T = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int); old = T(lambda v: v + 100)",
    change: "del old; gc.collect(); new = [T(lambda v, k=k: v * k) for k in range(8)]; [c(3) for c in new]",
    look: "(old(5), T(lambda v: -v)(4))",
    expect: "(105, -4)",
  },
  {
    name: "tasks that are pending",
    setup: `
import asyncio
log = []
async def worker(name, count):
    for i in range(count):
        await asyncio.sleep(0.001)
        log.append((name, i))
    return name
async def begin():
    return [asyncio.ensure_future(worker('a', 3)), asyncio.ensure_future(worker('b', 2))]
tasks = await begin()
await asyncio.sleep(0)`,
    change: "done = await asyncio.gather(*tasks); log.clear()",
    look: "(len(log), [t.done() for t in tasks], await asyncio.gather(*tasks), sorted(log))",
    expect: "(0, [False, False], ['a', 'b'], [('a', 0), ('a', 1), ('a', 2), ('b', 0), ('b', 1)])",
  },
  {
    name: "state after errors that unwind deep stacks",
    setup: `
marks = []
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError: marks.append('recursion')
try: bytearray(1 << 40)
except (MemoryError, OverflowError): marks.append('memory')
try: raise KeyboardInterrupt
except KeyboardInterrupt: marks.append('interrupt')`,
    change: "marks.clear()\ntry: deep(0)\nexcept RecursionError: pass",
    look: "(marks, sum(range(100)))",
    expect: "(['recursion', 'memory', 'interrupt'], 4950)",
  },
  {
    name: "compression, hash and array objects",
    setup:
      "import zlib, hashlib, array; z = zlib.compressobj(); part = z.compress(b'abc' * 1000); h = hashlib.sha256(b'a'); r = array.array('i', range(5))",
    change: "part += z.flush(); h.update(b'b'); r.append(9)",
    look: "(zlib.decompress(part + z.copy().flush()) == b'abc' * 1000, h.hexdigest()[:8], r.tolist())",
    expect: "(True, 'ca978112', [0, 1, 2, 3, 4])",
  },
];
