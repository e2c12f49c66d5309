"""Runs processes on terminals."""

import os
import pty
import select


class Terminal:
    """A process on a separate terminal."""

    def __init__(self, command, cwd, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(command[0], list(map(str, command)), os.environ | {"TERM": "xterm"} | env)
        self.seen = ""

    def wait_for(self, text, times=1):
        while self.seen.count(text) < times:
            self.seen += self.read()
        return self.seen

    def read(self):
        if not select.select([self.fd], [], [], 15)[0]:
            raise TimeoutError(self.seen)
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        assert data, self.seen
        return data.decode(errors="replace")

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Reads to the end; returns the exit status."""
        while True:
            try:
                self.seen += self.read()
            except AssertionError:
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
