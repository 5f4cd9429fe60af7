"""Resource control of an emulated machine, as seen and fed from outside.

QEMU (rdt/rdt.c) keeps all registers in a shared file. A guest asks over a serial port of its own
what stands there, a line for a question and a line for the answer:

  pqr CPU                            class and RMID that the CPU works for now
  l3 DOMAIN SLOT, l2 DOMAIN SLOT     a mask, hexadecimal
  mba DOMAIN SLOT                    a delay in percent
  cdp DOMAIN                         1 if code and data of its L3 are apart
  offers                             what the machine was made to offer, as words NAME=NUMBER
  raw DOMAIN RMID EVENT              a counter (hexadecimal): occupancy, total or local
  count DOMAIN RMID EVENT NUMBER     sets it
  flow DOMAIN RMID EVENT NUMBER      lets it grow by so many units a second
  clear                              sets all counters to zero and ends their growth

A guest cannot reach the file otherwise, so an answer is not what the kernel believes but what the
processor was told."""

import mmap
import socket
import struct
import threading
import time
from contextlib import contextmanager

from kit.say import LabError

MAGIC = b"QUELRDT1"
CPUS, DOMAINS, CLASSES, RMIDS = 256, 64, 32, 256
EVENTS = {"occupancy": 0, "total": 1, "local": 2}
# What the file begins with, in this order, as 64-bit words.
OFFERS = [
    *(f"{cache}_{what}" for cache in ("l3", "l2")
      for what in ("ways", "classes", "shareable", "cdp", "sparse")),
    "mba_classes", "mba_max_delay", "rmids", "scale", "events",
]
SERVER = {
    "l3_ways": 12, "l3_classes": 16, "l3_shareable": 0xC00, "l3_cdp": 1,
    "mba_classes": 16, "mba_max_delay": 90, "rmids": 64, "scale": 65536, "events": 7,
}
SHAPES = {
    # A usual server: 12 ways, the upper two shared with I/O, 16 classes, bandwidth by tens.
    "server": SERVER,
    # Little of everything, L2 besides, masks with holes, bandwidth by fifths.
    "small": {
        "l3_ways": 20, "l3_classes": 4, "l3_sparse": 1, "l2_ways": 8, "l2_classes": 8,
        "mba_classes": 8, "mba_max_delay": 80, "rmids": 8, "scale": 4096, "events": 7,
    },
    # Counts, but divides nothing.
    "monitor": {"rmids": 16, "scale": 65536, "events": 7},
}


class Registers:
    """The shared file."""

    _PQR = 1 + len(OFFERS)
    _L3 = _PQR + CPUS
    _L3_WORDS = 1 + 2 * CLASSES + RMIDS * len(EVENTS)
    _L2 = _L3 + DOMAINS * _L3_WORDS
    _L2_WORDS = 1 + CLASSES
    _BYTES = 8 * (_L2 + CPUS * _L2_WORDS)

    def __init__(self, path, shape):
        offers = SHAPES[shape]
        with open(path, "w+b") as file:
            file.truncate(self._BYTES)
            self._map = mmap.mmap(file.fileno(), self._BYTES)
        self._map[:8] = MAGIC
        for at, name in enumerate(OFFERS, 1):
            self._set(at, offers.get(name, 0))
        full = {cache: (1 << offers.get(f"{cache}_ways", 0)) - 1 for cache in ("l3", "l2")}
        for slot in range(CLASSES):
            for domain in range(DOMAINS):
                self._set(self._l3(domain, 1 + slot), full["l3"])
            for domain in range(CPUS):
                self._set(self._l2(domain, 1 + slot), full["l2"])

    def answer(self, question):
        """One line of the protocol; a question that is none is told so."""
        words = question.split()
        ask = getattr(self, f"_ask_{words[0]}", None) if words else None
        try:
            return ask(*words[1:]) if ask else f"error: no question {question!r}"
        except (TypeError, ValueError, KeyError, struct.error) as error:
            return f"error: {question}: {error!r}"

    def close(self):
        self._map.close()

    def add(self, domain, rmid, event, units):
        at = self._counter(domain, rmid, event)
        self._set(at, (self._get(at) + units) & ((1 << 62) - 1))

    def _ask_pqr(self, cpu):
        value = self._get(self._PQR + _below(cpu, CPUS))
        return f"{value >> 32} {value & 0xFFFFFFFF}"

    def _ask_l3(self, domain, slot):
        return f"{self._get(self._l3(domain, 1 + _below(slot, CLASSES))):x}"

    def _ask_l2(self, domain, slot):
        return f"{self._get(self._l2(domain, 1 + _below(slot, CLASSES))):x}"

    def _ask_mba(self, domain, slot):
        return str(self._get(self._l3(domain, 1 + CLASSES + _below(slot, CLASSES))))

    def _ask_cdp(self, domain):
        return str(self._get(self._l3(domain, 0)))

    def _ask_offers(self):
        return " ".join(f"{name}={self._get(at)}" for at, name in enumerate(OFFERS, 1))

    def _ask_raw(self, domain, rmid, event):
        return f"{self._get(self._counter(domain, rmid, event)):x}"

    def _ask_clear(self):
        first = 1 + 2 * CLASSES
        for domain in range(DOMAINS):
            at = 8 * self._l3(domain, first)
            self._map[at : at + 8 * (self._L3_WORDS - first)] = bytes(8 * (self._L3_WORDS - first))
        return "ok"

    def _ask_count(self, domain, rmid, event, number):
        self._set(self._counter(domain, rmid, event), int(number, 16))
        return "ok"

    def _counter(self, domain, rmid, event):
        of_rmid = _below(rmid, RMIDS) * len(EVENTS) + EVENTS[event]
        return self._l3(domain, 1 + 2 * CLASSES + of_rmid)

    def _l3(self, domain, word):
        return self._L3 + _below(domain, DOMAINS) * self._L3_WORDS + word

    def _l2(self, domain, word):
        return self._L2 + _below(domain, CPUS) * self._L2_WORDS + word

    def _get(self, word):
        return struct.unpack_from("<Q", self._map, 8 * word)[0]

    def _set(self, word, value):
        struct.pack_into("<Q", self._map, 8 * word, value)


def _below(text, end):
    number = int(text)
    if not 0 <= number < end:
        raise ValueError(f"{number} is not below {end}")
    return number


class _Outside(threading.Thread):
    """Answers the guest's questions, and lets counters grow, until it is told to end."""

    TICK_S = 0.1

    def __init__(self, registers, listener):
        super().__init__(daemon=True)
        self._registers, self._listener = registers, listener
        self._flows, self._grown, self._end = {}, time.monotonic(), threading.Event()

    def run(self):
        self._listener.settimeout(self.TICK_S)
        while not self._end.is_set():
            self._grow()
            try:
                link, _ = self._listener.accept()
            except TimeoutError:
                continue
            with link:
                link.settimeout(self.TICK_S)
                self._serve(link)

    def _serve(self, link):
        """Until the guest is gone."""
        said = b""
        while not self._end.is_set():
            self._grow()
            try:
                heard = link.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                return
            if not heard:
                return
            *lines, said = (said + heard).split(b"\n")
            for line in lines:
                link.sendall(self._answer(line.decode(errors="replace")).encode() + b"\n")

    def end(self):
        self._end.set()
        self.join()

    def _answer(self, question):
        words = question.split()
        if words == ["clear"]:
            self._flows.clear()
        if words[:1] != ["flow"]:
            return self._registers.answer(question)
        try:
            domain, rmid, event, number = words[1:]
            self._registers.add(domain, rmid, event, 0)
            self._flows[domain, rmid, event] = int(number, 16)
        except (ValueError, KeyError) as error:
            return f"error: {question}: {error!r}"
        return "ok"

    def _grow(self):
        now = time.monotonic()
        if now - self._grown < self.TICK_S:
            return  # less would be lost to rounding
        for (domain, rmid, event), units_per_s in self._flows.items():
            self._registers.add(domain, rmid, event, round(units_per_s * (now - self._grown)))
        self._grown = now


@contextmanager
def outside(shape, scratch):
    """Gives the words by which QEMU gets the port, and its environment, while it is answered."""
    if shape not in SHAPES:
        raise LabError(f"no resource control {shape}; there are {', '.join(SHAPES)}")
    file, port = scratch / "rdt", scratch / "outside"
    registers = Registers(file, shape)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(port))
        listener.listen(1)
        thread = _Outside(registers, listener)
        thread.start()
        try:
            yield _port(port), {"QUELL_RDT": str(file)}
        finally:
            thread.end()
            registers.close()


def _port(path):
    return ["-chardev", f"socket,id=outside,path={path}",
            "-device", "virtserialport,chardev=outside,name=outside"]


def processor(shape):
    """What the processor is told to have."""
    offers = SHAPES[shape]
    parts = {"rdt-m": "rmids" in offers, "rdt-a": "l3_ways" in offers}
    return "".join(f",{'+' if has else '-'}{name}" for name, has in parts.items())
