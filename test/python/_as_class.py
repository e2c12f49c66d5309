"""Runs sessions in separate processes, in which OpenCL devices have one class (CLAVE_DEVICE_CLASS), whatever the tests
run as: a device's class is fixed for the life of a process."""

import multiprocessing
import os
import tempfile

import clave


def _answer(sessions, request, number, *args):
    if request == "open":
        path, device, env = args
        for name, value in env.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        sessions[number] = clave.Session(path, clave.Device(device[0], fallback=device[1]))
        return None
    method, *inputs = args
    return list(sessions[number].run(*inputs, method=method))


def _serve(pipe, device_class):
    os.environ["CLAVE_DEVICE_CLASS"] = device_class
    sessions = {}
    while (request := pipe.recv()) is not None:
        try:
            pipe.send((_answer(sessions, *request), None))
        except clave.Error as e:
            pipe.send((None, str(e)))


class Process:
    """A process whose OpenCL devices have one class."""

    def __init__(self, device_class):
        self.folder, context = tempfile.TemporaryDirectory(), multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_serve, args=(end, device_class), daemon=True)
        self.process.start()
        self.opened, self.programs = 0, {}

    def ask(self, *request):
        self.pipe.send(request)
        answer, error = self.pipe.recv()
        if error:
            raise clave.Error(error)
        return answer

    def open(self, program, device="opencl", fallback=False, **env):
        """Opens a session of a Program. env: variables of the environment; None unsets one."""
        if program not in self.programs:
            self.programs[program] = f"{self.folder.name}/{len(self.programs)}.clv"
            program.save(self.programs[program])
        self.opened += 1
        self.ask("open", self.opened, self.programs[program], (device, fallback), env)
        return Session(self, self.opened)

    def close(self):
        self.pipe.send(None)
        self.process.join()
        self.folder.cleanup()


class Processes(dict):
    """Starts a process for each class at its first use."""

    def __missing__(self, device_class):
        self[device_class] = Process(device_class)
        return self[device_class]


class Session:
    def __init__(self, process, number):
        self.process, self.number = process, number

    def run(self, *inputs, method="forward"):
        """Returns numpy arrays, one per output."""
        return self.process.ask("run", self.number, method, *inputs)
