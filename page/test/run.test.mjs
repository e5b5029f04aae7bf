// Run semantics (machine 12, 13): conformance 1 to 10 and 28 at the page level, hazards H16 and H19.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
/** @type {Awaited<ReturnType<typeof openMachine>>} */
let machine;
before(async () => {
  opened = await openBrowser();
  machine = await openMachine(opened);
  assert.equal(machine.first.type, "ready", JSON.stringify(machine.first));
});
after(() => opened?.close());

/** @param {string} code */
async function value(code) {
  const reply = await machine.run(code);
  assert.equal(reply.ok, true, JSON.stringify(reply));
  return reply.value;
}

/** @param {string} code */
async function failure(code) {
  const reply = await machine.run(code);
  assert.equal(reply.ok, false, JSON.stringify(reply));
  assert.equal(typeof reply.error, "object", JSON.stringify(reply));
  return { ...reply.error, stdout: reply.stdout };
}

test("names persist between runs", async () => {
  assert.equal(await value("x = 1"), undefined);
  assert.equal(await value("x"), "1");
});

test("only a last expression gives a value, and None gives none", async () => {
  assert.equal(await value("x = 20\nx + 22"), "42");
  assert.equal(await value("1 + 1\ny = 3"), undefined);
  assert.equal(await value("None"), undefined);
  assert.equal(await value(""), undefined);
  assert.equal(await value("'text'"), "'text'");
});

test("nothing of the machine is visible among the guest's names", async () => {
  assert.equal(await value("sorted(n for n in globals() if n.startswith('_'))"), "['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__']");
  assert.equal(await value("__name__"), "'__main__'");
});

test("prints on both streams and descriptor writes arrive in order", async () => {
  const reply = await machine.run(
    "import os, sys\nprint('a', end='')\nprint('b', end='', file=sys.stderr)\nos.write(1, b'c')\nos.write(2, b'dd')\nprint('e')",
  );
  assert.equal(reply.stdout, "abcdde\n");
  assert.equal(reply.stderrBytes, 3);
  assert.equal(reply.stdoutBytes, 7);
});

test("top-level await works with gather, tasks, timeouts and a nested asyncio.run", async () => {
  assert.equal(
    await value("import asyncio\nawait asyncio.gather(*(asyncio.sleep(0.01 * (3 - i), i) for i in range(3)))"),
    "[0, 1, 2]",
  );
  assert.equal(await value("t = asyncio.create_task(asyncio.sleep(0.01, 5))\nawait t"), "5");
  assert.equal(await value("asyncio.run(asyncio.sleep(0.01, 'ran'))"), "'ran'");
  assert.equal(await value("a = await asyncio.sleep(0, 1)\nb = asyncio.run(asyncio.sleep(0, 2))\na, b, await asyncio.sleep(0, 3)"), "(1, 2, 3)");
  assert.equal(await value("async def count():\n    yield 1\n    yield 2\n[i async for i in count()]"), "[1, 2]");
  const late = await failure("async with asyncio.timeout(0.01):\n    await asyncio.sleep(9)");
  assert.equal(late.type, "TimeoutError");
});

test("a background task progresses only while a run awaits", async () => {
  await value("steps = []\nasync def work():\n    for i in range(3):\n        steps.append(i)\n        await asyncio.sleep(0)\n");
  await value("job = asyncio.create_task(work())\nawait asyncio.sleep(0)");
  const seen = await value("len(steps)");
  assert.equal(await value("len(steps)"), seen);
  assert.equal(await value("await job\nsteps"), "[0, 1, 2]");
});

test("a wait that nothing can end raises at once", async () => {
  const error = await failure("await asyncio.get_running_loop().create_future()");
  assert.equal(error.type, "RuntimeError");
  assert.match(error.message, /never end/);
});

test("functions for an executor run inline", async () => {
  assert.equal(await value("await asyncio.to_thread(pow, 2, 5)"), "32");
});

test("an exception names the run and its source line, without frames of the machine", async () => {
  const error = await failure("def divide():\n    return 1 / 0\n\ndivide()");
  assert.equal(error.kind, "exception");
  assert.equal(error.type, "ZeroDivisionError");
  assert.equal(error.module, "builtins");
  assert.equal(error.message, "division by zero");
  assert.match(error.traceback, /^Traceback \(most recent call last\):\n  File "<run \d+>", line 4, in <module>\n    divide\(\)/);
  assert.match(error.traceback, /line 2, in divide\n    return 1 \/ 0/);
  assert.doesNotMatch(error.traceback, /<machine>|http:/);
  assert.match(error.traceback, /ZeroDivisionError: division by zero\n$/);
  const awaited = await failure("async def f():\n    raise LookupError('deep')\nawait f()");
  assert.match(awaited.traceback, /^Traceback[^\n]*\n  File "<run \d+>", line 3, in <module>/);
});

test("a source that does not compile is a syntax failure and runs nothing", async () => {
  const error = await failure("x = 'changed'\nif");
  assert.equal(error.kind, "syntax");
  assert.equal(error.type, "SyntaxError");
  assert.equal((await failure(" 1")).type, "IndentationError");
  assert.equal((await failure("return 1")).kind, "syntax");
  assert.equal((await failure("'\\ud800'.encode()")).kind, "exception");
  assert.equal(await value("x"), "20");
  assert.equal((await failure("compile('(', 'inner', 'eval')")).kind, "exception");
});

test("sys.exit ends the run with its code and not the machine", async () => {
  const three = await failure("import sys\nsys.exit(3)");
  assert.equal(three.kind, "exit");
  assert.equal(three.exitCode, 3);
  assert.equal((await failure("sys.exit()")).exitCode, 0);
  const text = await failure("sys.exit('bye')");
  assert.equal(text.exitCode, 1);
  assert.equal(text.message, "bye");
  assert.equal(await value("40 + 2"), "42");
});

test("a KeyboardInterrupt that nobody asked for is an ordinary exception", async () => {
  assert.equal((await failure("raise KeyboardInterrupt")).kind, "exception");
});

test("values and exceptions that cannot be printed are reported", async () => {
  const broken = await failure("class B:\n    def __repr__(self):\n        raise ValueError('no repr')\nB()");
  assert.equal(broken.type, "ValueError");
  assert.equal(broken.message, "no repr");
  const mute = await failure("class E(Exception):\n    def __str__(self):\n        raise ValueError('no str')\nraise E()");
  assert.equal(mute.message, "<unprintable>");
  const leaving = await failure("class E(Exception):\n    def __str__(self):\n        raise SystemExit(3)\nraise E()");
  assert.equal(leaving.type, "E");
  assert.equal(leaving.message, "<unprintable>");
  assert.equal(mute.type, "E");
  assert.equal(mute.module, "__main__");
});

test("long values, messages and tracebacks are cut", async () => {
  const reply = await machine.run("'x' * 10_000_000");
  assert.equal(reply.value.length, 262144);
  assert.equal(reply.valueChars, 10_000_002);
  const error = await failure("raise ValueError('m' * 100_000)");
  assert.equal(error.message.length, 8192);
  assert.ok(error.traceback.length <= 65536);
  assert.match(error.traceback, /characters left out/);
  assert.match(error.traceback, /^Traceback/);
});

test("a value with lone surrogates is delivered", async () => {
  assert.equal(await value("class S(str):\n    def __repr__(self):\n        return '\\ud800!'\nS()"), "\ud800!");
});

test("input is at its end", async () => {
  assert.equal((await failure("input()")).type, "EOFError");
  assert.equal(await value("__import__('sys').stdin.read()"), "''");
});

test("closed descriptors and streams are back in the next run", async () => {
  await machine.run("import os, sys\nsys.stdout.close()\nfor fd in (0, 1, 2): os.close(fd)");
  const reply = await machine.run("print('out')\nprint('err', file=sys.stderr)\nsys.stdin.read()");
  assert.equal(reply.stdout, "out\nerr\n");
  assert.equal(reply.value, "''");
});

test("detached streams are back in the next run", async () => {
  await value("import sys\nsys.stdout.detach()\nsys.stderr.detach()");
  const reply = await machine.run("print('out')\nprint('err', file=sys.stderr)");
  assert.deepEqual([reply.ok, reply.stdout, reply.stderrBytes], [true, "out\nerr\n", 4]);
});

test("nothing that a flush raises changes a result", async () => {
  await value("class Odd:\n    def __init__(self, error): self.error = error\n    def write(self, text): pass\n    def flush(self): raise self.error");
  for (const error of ["KeyboardInterrupt()", "SystemExit(3)", "OSError()", "GeneratorExit()"]) {
    assert.equal(await value(`sys.stdout = Odd(${error})\n5`), "5", error);
    assert.equal(await value("6"), "6", error);
    assert.equal((await failure("1/0")).type, "ZeroDivisionError", error);
  }
  assert.equal(await value("sys.stdout = sys.__stdout__\n7"), "7");
});

test("time.sleep waits, checks its argument like the original, and accepts numbers like it", async () => {
  assert.equal(await value("import time\nt = time.monotonic()\ntime.sleep(0.05)\n0.05 <= time.monotonic() - t < 1"), "True");
  assert.equal((await failure("time.sleep(-1)")).type, "ValueError");
  assert.equal((await failure("time.sleep('1')")).type, "TypeError");
  assert.equal((await failure("time.sleep(float('nan'))")).type, "ValueError");
  assert.equal(await value("from fractions import Fraction\ntime.sleep(Fraction(1, 1000))\ntime.sleep(False)"), undefined);
});

test("random repeats with a seed and secrets never do", async () => {
  assert.equal(await value("import random, secrets\nrandom.seed(7)\na = random.random()\nrandom.seed(7)\na == random.random()"), "True");
  assert.equal(await value("secrets.token_hex(8) == secrets.token_hex(8)"), "False");
});

test("only configured variables are in the environment, and the search path has no duplicates", async () => {
  assert.equal(await value("import os\nsorted(os.environ)"), "['HOME', 'LANG', 'LD_LIBRARY_PATH']");
  assert.equal(await value("os.getcwd(), os.path.expanduser('~')"), "('/home/user', '/home/user')");
  assert.equal(await value("import sys\nlen(sys.path) == len(set(sys.path))"), "True");
});

test("the permission module denies everything", async () => {
  for (const call of ["net()", "net('host')", "clipboard()", "home()", "workers()"]) {
    assert.equal((await failure(`import pyprocJail\npyprocJail.${call}`)).type, "PermissionError");
  }
});

test("a trace or profile function that raises does not keep results from arriving", async () => {
  await machine.run("import sys\nsys.settrace(lambda *a: 1 / 0)");
  assert.equal((await machine.run("def f(): pass\nf()")).error?.type, "ZeroDivisionError");
  await machine.run("sys.settrace(None)");
  await machine.run("sys.setprofile(lambda *a: 1 / 0)");
  assert.equal(typeof (await machine.run("1")).ok, "boolean");
  await machine.run("sys.setprofile(None)");
  await machine.run(
    "m = sys.monitoring\nm.use_tool_id(3, 'x')\nm.register_callback(3, m.events.PY_START, lambda *a: 1 / 0)\nm.set_events(3, m.events.PY_START | m.events.LINE)",
  );
  assert.equal(await value("6 * 7"), "42");
  await machine.run("m.set_events(3, m.events.INSTRUCTION)");
  assert.equal(await value("6 * 7"), "42");
});

test("a tiny recursion limit does not keep results from arriving", async () => {
  await machine.run("import sys\nsys.setrecursionlimit(50)");
  assert.equal(await value("6 * 7"), "42");
  await machine.run("sys.setrecursionlimit(1000)");
});

test("a guest that replaces or deletes builtins and modules still gets answers", async () => {
  const wrecked = await openMachine(opened);
  await wrecked.run(
    "import sys, json, traceback, linecache, asyncio, builtins\n" +
      "json.dumps = json.loads = None\ntraceback.TracebackException = None\nlinecache.cache.clear()\n" +
      "sys.modules.pop('_machine', None)\nsys.modules.pop('__main__', None)\n" +
      "for name in ('repr', 'len', 'eval', 'exec', 'compile', 'isinstance', 'getattr', 'setattr', 'str', 'type', 'int', 'range', 'KeyboardInterrupt', 'BaseException'):\n" +
      "    setattr(builtins, name, None)",
  );
  assert.equal((await wrecked.run("6 * 7")).value, "42");
  const failed = await wrecked.run("1 / 0");
  assert.equal(failed.error.type, "ZeroDivisionError");
  assert.equal((await wrecked.run("if")).error.kind, "syntax");
  await wrecked.run("globals().clear()");
  assert.equal((await wrecked.run("'alive'")).value, "'alive'");
  await wrecked.close();
});

test("every name that the prelude's functions use is bound when the image is made", async () => {
  const missing = await value(`
import gc, types
space = next(d for d in gc.get_objects() if type(d) is dict and '__host__' in d and isinstance(d.get('_prepare'), types.FunctionType))
import dis
def globals_of(code):
    for step in dis.get_instructions(code):
        if step.opname in ('LOAD_GLOBAL', 'LOAD_NAME'):
            yield step.argval
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from globals_of(const)
found = []
for item in list(space.values()):
    members = [item] + (list(vars(item).values()) if isinstance(item, type) and item.__module__ == '_machine' else [])
    for member in members:
        member = getattr(member, '__func__', member)
        if isinstance(member, types.FunctionType) and member.__globals__ is space:
            found += [n for n in globals_of(member.__code__) if n not in space and n not in space['__builtins__']]
own = space['__builtins__'] is not vars(__import__('builtins'))
del space
(sorted(set(found)), own)`);
  assert.equal(missing, "([], True)");
});

test("the engine fails on unbounded native recursion and then answers nothing else", async () => {
  const failing = await openMachine(opened);
  const reply = await failing.run("x = []\nfor _ in range(100_000): x = [x]\nx");
  assert.equal(reply.ok, false);
  assert.equal(typeof reply.failed, "string");
  const next = await failing.run("1");
  assert.equal(typeof next.failed, "string");
  await failing.close();
});

test("a failed engine also follows from os._exit", async () => {
  const failing = await openMachine(opened);
  const reply = await failing.run("print('before')\nimport os\nos._exit(3)");
  assert.equal(typeof reply.failed, "string", JSON.stringify(reply));
  assert.equal(reply.stdout, "before\n");
  await failing.close();
});

test("Python recursion, MemoryError at the heap limit and full files are ordinary errors", async () => {
  const small = await openMachine(opened, { limits: { heapBytes: 96 << 20, fileBytes: 4 << 20 } });
  assert.equal((await small.run("def f(): f()\nf()")).error.type, "RecursionError");
  assert.equal((await small.run("b = bytearray(200 << 20)")).error.type, "MemoryError");
  const full = await small.run("with open('big', 'wb') as f:\n    for _ in range(8): f.write(bytes(1 << 20))");
  assert.equal(full.error.type, "OSError");
  assert.match(full.error.message, /No space left/);
  assert.equal((await small.run("import os\nos.remove('big')\nopen('big', 'wb').write(bytes(3 << 20))")).value, "3145728");
  assert.match((await small.run("os.truncate('big', 64 << 20)")).error?.message ?? "", /No space left/);
  assert.equal((await small.run("6 * 7")).value, "42");
  await small.close();
});

test("a heap full of small objects is reported, and the next runs can free some", async () => {
  const small = await openMachine(opened, { limits: { heapBytes: 64 << 20 } });
  const uncaught = "hold = []\nwhile True: hold.append(object())";
  for (const fill of [uncaught, "hold = []\ntry:\n    while True: hold.append([1])\nexcept MemoryError: pass"]) {
    const filled = await small.run(fill);
    assert.equal(filled.error?.type, fill === uncaught ? "MemoryError" : undefined, fill);
    for (const [source, expected] of [["x = None", undefined], ["def f(a, *b):\n    return [a, b]\nf(1)", "[1, ()]"]]) {
      const reply = await small.run(source);
      assert.deepEqual([reply.error, reply.value], [undefined, expected], `${fill}: ${source}`);
    }
    assert.equal((await small.run("1/0")).error.type, "ZeroDivisionError", fill);
    await small.run("hold = None");
    assert.equal((await small.run("len([0] * 1_000_000)")).value, "1000000", fill);
  }
  await small.close();
});
