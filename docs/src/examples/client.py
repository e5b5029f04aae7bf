"""A small client of pyproc-control: one request at a time, standard library only."""

import json
import subprocess


class Machine:
    """A Python machine in a child process. Close it, or use it in a `with` block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            ["pyproc-control", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.requests = 0
        self.send(
            "hello",
            requestId="hello",
            role="client",
            peer={"name": "example", "version": "1"},
            capabilities={
                "cancel": True,
                "events": False,
                "attachments": {"encoding": "base64", "maxChunkBytes": 65536},
            },
        )
        self.operations = self.receive()["operations"]

    def send(self, type, **members):
        frame = {"protocol": "pyproc-control", "version": 1, "type": type, **members}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("pyproc-control has ended; its standard error says why")
        return json.loads(line)

    def request(self, operation, **input):
        """The terminal frame of one request: a `response` or an `error`."""
        self.requests += 1
        id = f"request-{self.requests}"
        self.send("request", requestId=id, operation=operation, input=input)
        while True:
            frame = self.receive()
            if frame["type"] == "error" and frame.get("fatal"):
                raise ConnectionError(frame["error"]["message"])
            if frame["type"] in ("response", "error") and frame["requestId"] == id:
                return frame

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    with Machine() as machine:
        for operation, input in [
            ("machine.run", {"code": "items = [1, 2, 3]\nsum(items)"}),
            ("machine.checkpoint.save", {}),
            ("machine.run", {"code": "items.clear()\n1 / len(items)"}),
            ("machine.checkpoint.restore", {}),
            ("machine.run", {"code": "items"}),
        ]:
            frame = machine.request(operation, **input)
            if frame["type"] == "response":
                print(operation, frame["outcome"], frame["output"])
            else:
                error = frame["error"]
                print(operation, error["outcome"], error["code"])
                print(error["details"]["traceback"])
