// SPDX-License-Identifier: Apache-2.0
// Records a session with Agent Relay. Node 18, no packages; copy this file into your agent.
//
//     import { Session } from "./agent_relay.mjs";
//
//     const session = new Session("my-agent", { name: "parser" });
//     session.send("turn.start", { prompt: "say hello" });
//     session.send("turn.output", { text: "hello\n" });
//     session.send("turn.end", { tokens: { input: 3, output: 1 } });
//     await session.close({ exit_code: 0 });
//
// send() numbers the event, hands it over and returns. flush() settles once everything that was sent is safe on disk. When the
// daemon goes away, events wait in memory; once it is back this attaches, learns what it has, and sends the rest, each event once.
// What could not be delivered when the session ends, or is more than `memoryBytes`, goes to a spool file, which the next
// `agent-relay run` delivers. Nothing here throws because of the recorder.
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const passing = new Set(["internal", "no_space", "overloaded", "shutting_down", "seq_gap", "not_owner"]);

export function newUlid() {
  let number = (BigInt(Date.now()) << 80n) | BigInt("0x" + randomBytes(10).toString("hex"));
  let text = "";
  for (let left = 26; left > 0; --left, number >>= 5n) text = alphabet[Number(number & 31n)] + text;
  return text;
}

function stateDirectory() {
  const { AGENT_RELAY_HOME: home, XDG_STATE_HOME: state } = process.env;
  return home ? path.join(home, "state") : path.join(state || path.join(os.homedir(), ".local/state"), "agent-relay");
}

function socketPath() {
  const { AGENT_RELAY_SOCKET: socket, AGENT_RELAY_HOME: home, XDG_RUNTIME_DIR: runtime } = process.env;
  return socket || (runtime && !home ? path.join(runtime, "agent-relay/relay.sock") : path.join(stateDirectory(), "relay.sock"));
}

export class Session {
  id = newUlid();
  slug = null; // this and path are known once session.start was answered
  path = null;
  refused = []; // events that the daemon will not have, with its words
  #pending = []; // {seq, members, bytes}, oldest first: not acked
  #bytes = 0; // of them
  #seq = 0;
  #sent = 0; // the greatest seq on this connection
  #socket = null;
  #ready = false; // attached, or the session is not started yet
  #incoming = "";
  #retry = null;
  #spool = null;
  #ended = false;
  #waiting = []; // of flush()

  constructor(agent, { cwd = process.cwd(), memoryBytes = 8 << 20, ...fields } = {}) {
    this.memoryBytes = memoryBytes;
    this.send("session.start", { agent, cwd, pid: process.pid, ...fields });
  }

  send(type, fields = {}) {
    const members = { type, ...fields };
    if (this.#spool !== null) return this.#toSpool(members);
    const bytes = JSON.stringify(members).length;
    this.#pending.push({ seq: ++this.#seq, members, bytes });
    this.#bytes += bytes;
    if (this.#bytes > this.memoryBytes) return this.#giveUp();
    if (this.#socket === null) return this.#connect();
    this.#sendPending();
  }

  // True once everything sent is acked: durable, and in the session's files.
  flush(timeoutMs = 10000) {
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#settle(true), timeoutMs);
      const done = () => this.#pending.length === 0 && this.#spool === null;
      this.#waiting.push(() => (clearTimeout(timer), settle(done())));
      this.#settle();
    });
  }

  // Ends the session. False when some of it waits in a spool file.
  async close({ exit_code, error } = {}, timeoutMs = 10000) {
    this.send("session.end", { exit_code, error });
    const safe = await this.flush(timeoutMs);
    if (this.#pending.length > 0) this.#giveUp();
    this.#ended = true;
    this.#disconnect();
    if (this.#spool !== null) {
      fs.fsyncSync(this.#spool);
      fs.closeSync(this.#spool);
      fs.renameSync(this.#spoolPath(".tmp"), this.#spoolPath(".spool"));
    }
    return safe;
  }

  #connect() {
    if (this.#retry !== null || this.#ended || this.#spool !== null) return;
    const socket = net.connect(socketPath());
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("connect", () => {
      // A session.start that was never acked is sent again, and taken once.
      this.#ready = this.#pending[0]?.members.type === "session.start";
      if (this.#ready) return this.#sendPending();
      this.#write(0, { type: "session.attach", reopen: true, pid: process.pid });
    });
    socket.on("data", (text) => this.#read(socket, text));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => this.#socket === socket && this.#lost());
  }

  #lost() {
    this.#disconnect();
    if (this.#ended || this.#spool !== null || this.#pending.length === 0) return;
    this.#retry = setTimeout(() => ((this.#retry = null), this.#connect()), 100);
  }

  #disconnect() {
    this.#socket?.destroy();
    clearTimeout(this.#retry);
    [this.#socket, this.#retry, this.#ready, this.#incoming, this.#sent] = [null, null, false, "", 0];
  }

  #write(seq, members) {
    this.#socket.write(JSON.stringify({ ...members, session: this.id, id: seq, ...(seq ? { seq } : {}) }) + "\n");
  }

  #sendPending() {
    for (const event of this.#ready ? this.#pending : []) {
      if (event.seq <= this.#sent) continue;
      this.#write(event.seq, event.members);
      this.#sent = event.seq;
    }
  }

  #read(socket, text) {
    const lines = (this.#incoming + text).split("\n");
    this.#incoming = lines.pop();
    for (const line of lines) {
      if (this.#socket === socket) this.#take(JSON.parse(line)); // else it was given up by what came before
    }
  }

  #take(answer) {
    this.slug = answer.slug ?? this.slug;
    this.path = answer.path ?? this.path;
    if (answer.type === "ack") {
      this.#acked(answer.id === 0 ? answer.last_seq : answer.id);
      this.#ready = true;
      return this.#sendPending();
    }
    if (!passing.has(answer.code) && answer.id !== 0) {
      // It uses up no number, so those behind it close up; they were sent with wrong ones, and go once more.
      const at = this.#pending.findIndex((event) => event.seq === answer.id);
      const [event] = this.#pending.splice(at, 1);
      this.#bytes -= event.bytes;
      this.refused.push([event.members, answer.message]);
      this.#pending.slice(at).forEach((later) => --later.seq);
      --this.#seq;
    }
    this.#lost();
    this.#settle();
  }

  #acked(number) {
    while (this.#pending[0]?.seq <= number) this.#bytes -= this.#pending.shift().bytes;
    this.#settle();
  }

  #settle(now = false) {
    if (now || this.#pending.length === 0 || this.#spool !== null) this.#waiting.splice(0).forEach((settle) => settle());
  }

  // -- no daemon: <state>/spool/<session>.spool, as told in cli/spool_file.hpp

  #spoolPath(end) {
    return path.join(stateDirectory(), "spool", this.id + end);
  }

  #giveUp() {
    this.#disconnect();
    fs.mkdirSync(path.join(stateDirectory(), "spool"), { recursive: true, mode: 0o700 });
    // Node cannot lock a file: it gets the name under which it is delivered once it is whole.
    this.#spool = fs.openSync(this.#spoolPath(".tmp"), "w", 0o600);
    fs.writeSync(this.#spool, `agent-relay spool 1 ${this.id} ${String(this.#pending[0].seq).padStart(20, "0")}\n`);
    this.#pending.splice(0).forEach((event) => this.#toSpool(event.members));
    this.#settle(true);
  }

  #toSpool(members) {
    const text = JSON.stringify(members);
    fs.writeSync(this.#spool, `${Buffer.byteLength(text)} -\n${text}\n\n`);
  }
}
