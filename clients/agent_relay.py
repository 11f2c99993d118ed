# SPDX-License-Identifier: Apache-2.0
"""Records a session with Agent Relay. Python 3.9, standard library only; copy this file into your agent.

    from agent_relay import Session

    with Session("my-agent", name="parser") as session:
        session.send("turn.start", prompt="say hello")
        session.send("turn.output", text="hello\\n")
        session.send("turn.end", tokens={"input": 3, "output": 1})

send() numbers the event, hands it over and returns. flush() returns once everything that was sent is safe on disk. When the daemon
goes away, events wait in memory; the next call that reaches it again attaches, learns what it has, and sends the rest,
each event once. What could not be delivered when the session ends, or is more than `memory_bytes`, goes to a spool file, which
the next `agent-relay run` delivers. No call raises because of the recorder; send() waits for it for 5 s at most.
One thread at a time.
"""
import collections
import fcntl
import json
import os
import secrets
import select
import socket
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_ulid():
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def state_directory():
    home = os.environ.get("AGENT_RELAY_HOME")
    if home:
        return os.path.join(home, "state")
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    return os.path.join(state, "agent-relay")


def socket_path():
    if os.environ.get("AGENT_RELAY_SOCKET"):
        return os.environ["AGENT_RELAY_SOCKET"]
    if os.environ.get("XDG_RUNTIME_DIR") and not os.environ.get("AGENT_RELAY_HOME"):
        return os.path.join(os.environ["XDG_RUNTIME_DIR"], "agent-relay", "relay.sock")
    return os.path.join(state_directory(), "relay.sock")


class Session:
    def __init__(self, agent, cwd=None, memory_bytes=8 << 20, **fields):
        self.id = new_ulid()
        self.slug = None  # known once session.start was answered
        self.path = None
        self.refused = []  # events that the daemon will not have, with its words
        self._pending = collections.deque()  # (seq, members), oldest first: not acked
        self._bytes = 0  # of them
        self._memory_bytes = memory_bytes
        self._seq = 0
        self._sent = 0  # the greatest seq on this connection
        self._socket = None
        self._incoming = b""
        self._retry_at = 0.0
        self._spool = None
        self.send("session.start", agent=agent, cwd=cwd or os.getcwd(), pid=os.getpid(), **fields)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close(exit_code=0 if kind is None else 1, error=str(error) if error else None)

    def send(self, type, **fields):
        members = {"type": type, **{key: value for key, value in fields.items() if value is not None}}
        if self._spool:
            self._to_spool(members)
            return
        self._seq += 1
        self._pending.append((self._seq, members))
        self._bytes += len(json.dumps(members))
        self._exchange(0)
        if self._bytes > self._memory_bytes:
            self._give_up()

    def flush(self, timeout=10.0):
        """True once everything sent is acked: durable, and in the session's files."""
        deadline = time.monotonic() + timeout
        while self._pending and not self._spool and time.monotonic() < deadline:
            self._exchange(min(0.1, max(0.0, deadline - time.monotonic())))
        return not self._pending and not self._spool

    def close(self, exit_code=None, error=None, timeout=10.0):
        """Ends the session. False when some of it waits in a spool file."""
        self.send("session.end", exit_code=exit_code, error=error)
        safe = self.flush(timeout)
        if self._pending:
            self._give_up()
        self._disconnect()
        if self._spool:
            os.fsync(self._spool.fileno())
            self._spool.close()
        return safe

    # -- the daemon

    def _connect(self):
        if time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + 0.1
        try:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(5.0)
            self._socket.connect(socket_path())
            self._sent = 0
            if self._pending and self._pending[0][1]["type"] == "session.start":
                return True  # it was never acked; sent again it is taken once
            self._socket.sendall(self._line(0, {"type": "session.attach", "reopen": True, "pid": os.getpid()}))
            answer = self._read_line()
            if answer["type"] == "error":
                raise ConnectionError(answer["message"])
            self._acked(answer["last_seq"])
            return True
        except (OSError, ValueError):
            self._disconnect()
            return False

    def _disconnect(self):
        if self._socket:
            self._socket.close()
        self._socket, self._incoming, self._sent = None, b"", 0

    def _line(self, seq, members):
        head = {"session": self.id, "id": seq, **({"seq": seq} if seq else {})}
        return (json.dumps({**members, **head}) + "\n").encode()

    def _read_line(self):
        while b"\n" not in self._incoming:
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError("closed")
            self._incoming += piece
        line, self._incoming = self._incoming.split(b"\n", 1)
        return json.loads(line)

    def _exchange(self, wait):
        """Sends what was not sent yet, and reads what was answered; waits for an answer at most so long."""
        if not self._socket and not self._connect():
            time.sleep(min(wait, 0.02))
            return
        try:
            for seq, members in self._pending:
                if seq > self._sent:
                    self._socket.sendall(self._line(seq, members))
                    self._sent = seq
            while self._pending and (self._incoming.count(b"\n") or select.select([self._socket], [], [], wait)[0]):
                self._take(self._read_line())
                wait = 0
        except (OSError, ValueError):
            self._disconnect()

    def _take(self, answer):
        self.slug = answer.get("slug", self.slug)
        self.path = answer.get("path", self.path)
        if answer["type"] == "ack":
            self._acked(answer["id"])
        elif answer["code"] in ("internal", "no_space", "overloaded", "shutting_down", "seq_gap", "not_owner"):
            raise ConnectionError(answer["message"])  # for now: once more on a new connection
        else:
            # It uses up no number, so those behind it close up; they were sent with wrong ones, and go once more.
            refused = answer["id"]
            self.refused += [(members, answer["message"]) for seq, members in self._pending if seq == refused]
            kept = [event for event in self._pending if event[0] != refused]
            self._pending = collections.deque((seq - (seq > refused), members) for seq, members in kept)
            self._seq -= 1
            raise ConnectionError(answer["message"])

    def _acked(self, number):
        while self._pending and self._pending[0][0] <= number:
            self._bytes -= len(json.dumps(self._pending.popleft()[1]))

    # -- no daemon: <state>/spool/<session>.spool, as told in cli/spool_file.hpp

    def _give_up(self):
        self._disconnect()
        directory = os.path.join(state_directory(), "spool")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = os.path.join(directory, self.id + ".spool")
        first = self._pending[0][0]
        self._spool = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb", 0)
        fcntl.flock(self._spool, fcntl.LOCK_EX)  # until it is closed: nobody delivers it meanwhile
        self._spool.write(b"agent-relay spool 1 %s %020d\n" % (self.id.encode(), first))
        while self._pending:
            self._to_spool(self._pending.popleft()[1])

    def _to_spool(self, members):
        text = json.dumps(members).encode()
        self._spool.write(b"%d -\n%s\n\n" % (len(text), text))
