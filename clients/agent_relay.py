# SPDX-License-Identifier: Apache-2.0
"""Records a session with Agent Relay. Python 3.9, standard library only; copy this file into your agent.

    from agent_relay import Session

    with Session("my-agent", name="parser") as session:
        session.send("turn.start", prompt="say hello")
        session.send("turn.output", text="hello\\n")
        session.send("turn.end", tokens={"input": 3, "output": 1})

send() numbers the event, hands it over and returns; flush() returns once all of them are safe on disk. While there is no daemon,
events wait in memory; the next call that reaches it learns what it has and sends the rest, each event once. What is left when the
session ends, or more than `memory_bytes`, goes to a spool file, which the next `agent-relay run` delivers. No call raises because
of the recorder, and send() waits for it only when `memory_bytes` are full, for 5 s at most. One thread at a time.
"""
import collections, fcntl, json, os, secrets, select, socket, time  # noqa: E401

PASSING = ("internal", "no_space", "overloaded", "shutting_down", "seq_gap", "not_owner")


def new_ulid():
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[number >> shift & 31] for shift in range(125, -1, -5))


def state_directory():
    home, state = os.environ.get("AGENT_RELAY_HOME"), os.environ.get("XDG_STATE_HOME")
    return os.path.join(home, "state") if home else os.path.join(state or os.path.expanduser("~/.local/state"), "agent-relay")


def socket_path():
    named, runtime = os.environ.get("AGENT_RELAY_SOCKET"), os.environ.get("XDG_RUNTIME_DIR")
    usual = os.path.join(runtime, "agent-relay") if runtime and not os.environ.get("AGENT_RELAY_HOME") else state_directory()
    return named or os.path.join(usual, "relay.sock")


class Session:
    def __init__(self, agent, cwd=None, memory_bytes=8 << 20, **fields):
        self.id = new_ulid()
        self.slug = self.path = None  # known once session.start was answered
        self.refused = []  # events that the daemon will not have, with its words
        self.trouble = None  # why nothing is recorded any more; what is sent then is dropped
        self._pending = collections.deque()  # JSON of what is not acked, oldest first
        self._first = 1  # the seq of the oldest; 1: session.start
        self._bytes, self._memory_bytes = 0, memory_bytes  # of them all, and at most
        self._careful = False  # one event at a time, to find the one that is wrong
        self._socket, self._spool, self._retry_at = None, None, 0.0
        self._disconnect()
        self.send("session.start", agent=agent, cwd=cwd or os.getcwd(), pid=os.getpid(), **fields)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close(exit_code=0 if kind is None else 1, error=str(error) if error else None)

    def send(self, type, **fields):
        members = {"type": type, **{key: value for key, value in fields.items() if value is not None}}
        try:  # half a surrogate pair becomes "?": it has no UTF-8
            text = json.dumps(members, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError) as error:
            self.refused.append((members, f"no JSON: {error}"))
            return
        if self.trouble or self._spool is not None:
            return self._to_spool(b"%d -\n%s\n\n" % (len(text), text))
        self._pending.append(text)
        self._bytes += len(text)
        self._exchange(0)
        if self._bytes > self._memory_bytes and not (self._socket and self.flush(5)):
            self._give_up()

    def flush(self, timeout=10.0):
        """True once everything sent is acked: durable, and in the session's files."""
        deadline = time.monotonic() + timeout
        while self._pending and time.monotonic() < deadline:
            self._exchange(min(0.1, max(0.0, deadline - time.monotonic())))
        return not self._pending and self._spool is None and not self.trouble

    def close(self, exit_code=None, error=None, timeout=10.0):
        """Ends the session. False when some of it waits in a spool file, or was dropped: see trouble."""
        self.send("session.end", exit_code=exit_code, error=error)
        safe = self.flush(timeout)
        self._give_up() if self._pending else self._disconnect()
        if self._spool is not None:
            self._to_spool(b"")
            os.close(self._spool)
        return safe

    # -- the daemon

    def _connect(self):
        if time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + 0.1
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.connect(socket_path())
        self._ready = self._first == 1  # a session.start that was never acked is sent again, and taken once
        if not self._ready:
            self._outgoing += self._line(0, b'{"type":"session.attach","pid":%d}' % os.getpid())
        return True

    def _disconnect(self):
        if self._socket:
            self._socket.close()
        self._socket, self._ready, self._sent, self._incoming, self._outgoing = None, False, 0, b"", bytearray()

    def _line(self, seq, text):
        return text[:-1] + b',"session":"%s","id":%d%s}\n' % (self.id.encode(), seq, b',"seq":%d' % seq if seq else b"")

    def _queue(self):
        at = max(0, self._sent + 1 - self._first)  # _sent: the greatest seq on this connection
        while self._ready and at < (1 if self._careful else len(self._pending)) and len(self._outgoing) < 1 << 16:
            self._sent = self._first + at
            self._outgoing += self._line(self._sent, self._pending[at])
            at += 1

    def _exchange(self, wait):
        """Sends and reads what can be now; waits for something of it at most so long."""
        try:
            if not self._socket and not self._connect():
                time.sleep(min(wait, 0.02))
            while self._socket and self._pending:
                self._queue()
                poll = select.poll()
                poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
                found = poll.poll(wait * 1000)
                if not found:
                    return
                wait = 0
                if found[0][1] & ~select.POLLOUT:  # before writing: a daemon that closes has said why
                    self._read()
                else:
                    del self._outgoing[: self._socket.send(self._outgoing)]
        except BrokenPipeError:
            self._outgoing.clear()  # the next call reads why
        except (OSError, ValueError, LookupError):
            self._disconnect()

    def _read(self):
        piece = self._socket.recv(65536)
        if not piece:
            raise ConnectionError("closed")
        *lines, self._incoming = (self._incoming + piece).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, answer):
        self.slug, self.path = answer.get("slug", self.slug), answer.get("path", self.path)
        if answer.get("id") == 0 and answer.get("code") == "ended":
            if "completed" not in answer["message"] or b'"session.end"' not in self._pending[-1][:24]:
                return self._outgoing.extend(self._line(0, b'{"type":"session.attach","reopen":true,"pid":%d}' % os.getpid()))
            answer = {"type": "ack", "id": self._first + len(self._pending) - 1}  # by our own end, whose ack was lost
        if answer["type"] == "ack":
            self._ready = True
            while self._pending and self._first <= (answer["id"] or answer["last_seq"]):
                self._bytes -= len(self._pending.popleft())
                self._first += 1
            return
        refused = answer.get("id", self._first)
        if "id" not in answer and not self._careful:
            self._careful = True  # a line that it could not read: which one?
        elif answer["code"] not in PASSING and refused:
            # It uses up no number, so those behind it close up; they were sent with wrong ones, and go once more.
            self._careful = False
            at = refused - self._first
            self._bytes -= len(self._pending[at])
            self.refused.append((json.loads(self._pending[at]), answer["message"]))
            del self._pending[at]
            if refused == 1:
                self.trouble = "session.start was refused: " + answer["message"]
                self._pending.clear()
        raise ConnectionError(answer["message"])  # once more on a new connection

    # -- no daemon: <state>/spool/<session>.spool, as told in delivery/spool_file.hpp

    def _give_up(self):
        self._disconnect()
        path = os.path.join(state_directory(), "spool", self.id + ".spool")
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            self._spool = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._spool, fcntl.LOCK_EX)  # until it is closed: nobody delivers it meanwhile
            self._to_spool(b"agent-relay spool 1 %s %020d\n" % (self.id.encode(), self._first))
            os.rename(path + ".tmp", path)
        except OSError as error:
            self.trouble = f"no daemon, and no spool file: {error}"
        while self._pending:
            text = self._pending.popleft()
            self._to_spool(b"%d -\n%s\n\n" % (len(text), text))

    def _to_spool(self, record):
        try:
            if not self.trouble and os.write(self._spool, record) < len(record):
                raise OSError("it is full")
            if not self.trouble and not record:
                os.fsync(self._spool)
        except OSError as error:
            self.trouble = f"no daemon, and the spool file takes nothing: {error}"
