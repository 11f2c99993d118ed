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
// send() numbers the event, hands it over and returns; flush() settles once all of them are safe on disk. While there is no daemon,
// events wait in memory; once it is back this learns what it has and sends the rest, each event once. What is left when the session
// ends, or more than `memoryBytes`, goes to a spool file, which `agent-relay run` delivers. Nothing throws because of the recorder.
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";

const passing = new Set(["internal", "no_space", "overloaded", "shutting_down", "seq_gap", "not_owner"]);

export function newUlid() {
  let number = (BigInt(Date.now()) << 80n) | BigInt("0x" + randomBytes(10).toString("hex"));
  let text = "";
  for (let left = 26; left > 0; --left, number >>= 5n) text = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[Number(number & 31n)] + text;
  return text;
}

const stateDirectory = ({ AGENT_RELAY_HOME: home, XDG_STATE_HOME: state } = process.env) =>
  home ? path.join(home, "state") : path.join(state || path.join(os.homedir(), ".local/state"), "agent-relay");
const spoolPath = (name) => path.join(stateDirectory(), "spool", name);
const socketPath = ({ AGENT_RELAY_SOCKET: socket, AGENT_RELAY_HOME: home, XDG_RUNTIME_DIR: runtime } = process.env) =>
  socket || path.join(runtime && !home ? path.join(runtime, "agent-relay") : stateDirectory(), "relay.sock");

export class Session {
  id = newUlid();
  #temporary = `${this.id}.${process.pid}.tmp`; // spool file
  slug = null; path = null; // known once session.start was answered
  refused = []; // events that the daemon will not have, with its words
  trouble = null; // why nothing is recorded any more; what is sent then is dropped
  #pending = []; // JSON of what is not acked, oldest first
  #first = 1; // the seq of the oldest; 1: session.start
  #bytes = 0; // of them all
  #careful = false; // one event at a time, to find the one that is wrong
  #sent = 0; // the greatest seq on this connection
  #socket = null;
  #ready = false; // attached, or the session is not started yet
  #incoming = "";
  #retry = null; #spool = null; // a timer, a descriptor
  #waiting = []; // of flush()

  constructor(agent, { cwd = process.cwd(), memoryBytes = 8 << 20, ...fields } = {}) {
    this.memoryBytes = memoryBytes;
    this.send("session.start", { agent, cwd, pid: process.pid, ...fields });
  }

  send(type, fields = {}) {
    let text;
    try {
      // Half a surrogate pair, which JSON.stringify() escapes, has no UTF-8.
      text = JSON.stringify({ type, ...fields }).replace(/\\\\|\\ud[89a-f]../g, (found) => (found === "\\\\" ? found : "\ufffd"));
    } catch (error) {
      return void this.refused.push([{ type, ...fields }, `no JSON: ${error.message}`]);
    }
    if (this.trouble !== null || this.#spool !== null) return this.#toSpool(text);
    this.#pending.push(text);
    this.#bytes += text.length;
    if (this.#bytes > this.memoryBytes) return this.#giveUp();
    if (this.#socket === null) return this.#connect();
    this.#sendPending();
  }

  // True once everything sent is acked: durable, and in the session's files.
  flush(timeoutMs = 10000) {
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#settle(true), timeoutMs);
      const isSafe = () => this.#pending.length === 0 && this.#spool === null && this.trouble === null;
      this.#waiting.push(() => (clearTimeout(timer), settle(isSafe())));
      this.#settle();
    });
  }

  // Ends the session. False when some of it waits in a spool file, or was dropped: see trouble.
  async close({ exit_code, error } = {}, timeoutMs = 10000) {
    this.send("session.end", { exit_code, error });
    const safe = await this.flush(timeoutMs);
    if (this.#pending.length > 0) this.#giveUp();
    this.#disconnect();
    if (this.#spool === null) return safe;
    this.#try(() => (fs.fsyncSync(this.#spool), fs.renameSync(spoolPath(this.#temporary), spoolPath(this.id + ".spool"))));
    fs.closeSync(this.#spool);
    return false;
  }

  #connect() {
    if (this.#retry !== null || this.#spool !== null) return;
    const socket = net.connect(socketPath()).setEncoding("utf8").unref(); // whoever wants to wait calls flush()
    this.#socket = socket;
    socket.on("connect", () => {
      this.#ready = this.#first === 1; // a session.start that was never acked is sent again, and taken once
      this.#ready ? this.#sendPending() : this.#write(0, `{"type":"session.attach","pid":${process.pid}}`);
    });
    socket.on("data", (text) => this.#read(socket, text));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => this.#socket === socket && this.#lost());
  }

  #lost() {
    this.#disconnect();
    if (this.#spool !== null || this.#pending.length === 0) return;
    this.#retry = setTimeout(() => ((this.#retry = null), this.#connect()), 100).unref();
  }

  #disconnect() {
    this.#socket?.destroy();
    clearTimeout(this.#retry);
    [this.#socket, this.#retry, this.#ready, this.#incoming, this.#sent] = [null, null, false, "", 0];
  }

  #write(seq, text) {
    this.#socket.write(`${text.slice(0, -1)},"session":"${this.id}","id":${seq}${seq ? `,"seq":${seq}` : ""}}\n`);
  }

  #sendPending() {
    const end = this.#careful ? 1 : this.#pending.length;
    for (let at = Math.max(0, this.#sent + 1 - this.#first); this.#ready && at < end; ++at) {
      this.#sent = this.#first + at;
      this.#write(this.#sent, this.#pending[at]);
    }
  }

  #read(socket, text) {
    const lines = (this.#incoming + text).split("\n");
    this.#incoming = lines.pop();
    // What is behind a line by which the connection was given up does not count.
    for (const line of lines) if (this.#socket === socket) this.#take(JSON.parse(line));
  }

  #take(answer) {
    this.slug = answer.slug ?? this.slug;
    this.path = answer.path ?? this.path;
    if (answer.id === 0 && answer.code === "ended") {
      if (!answer.message.includes("completed") || !this.#pending.at(-1).startsWith('{"type":"session.end"'))
        return this.#write(0, `{"type":"session.attach","reopen":true,"pid":${process.pid}}`);
      answer = { type: "ack", id: this.#first + this.#pending.length - 1 }; // by our own end, whose ack was lost
    }
    if (answer.type === "ack") {
      this.#ready = true;
      const last = answer.id || answer.last_seq;
      for (; this.#first <= last && this.#pending.length > 0; ++this.#first) this.#bytes -= this.#pending.shift().length;
      this.#settle();
      return this.#sendPending();
    }
    const refused = answer.id ?? this.#first;
    if (answer.id === undefined && !this.#careful) {
      this.#careful = true; // a line that it could not read: which one?
    } else if (!passing.has(answer.code) && refused !== 0) {
      // It uses up no number, so those behind it close up; they were sent with wrong ones, and go once more.
      this.#careful = false;
      const [text] = this.#pending.splice(refused - this.#first, 1);
      this.#bytes -= text.length;
      this.refused.push([JSON.parse(text), answer.message]);
      if (refused === 1) [this.trouble, this.#pending] = [`session.start was refused: ${answer.message}`, []];
    }
    this.#lost();
    this.#settle();
  }

  #settle(now = false) {
    if (now || this.#pending.length === 0 || this.#spool !== null) this.#waiting.splice(0).forEach((settle) => settle());
  }

  // -- no daemon: <state>/spool/<session>.spool, as told in delivery/spool_file.hpp

  #giveUp() {
    this.#disconnect();
    this.#try(() => {
      fs.mkdirSync(spoolPath(""), { recursive: true, mode: 0o700 });
      // Node cannot lock a file: it gets the name under which it is delivered once it is whole, or this process is gone.
      this.#spool = fs.openSync(spoolPath(this.#temporary), "wx", 0o600);
      fs.writeFileSync(this.#spool, `agent-relay spool 1 ${this.id} ${String(this.#first).padStart(20, "0")}\n`);
    });
    this.#pending.splice(0).forEach((text) => this.#toSpool(text));
    this.#settle(true);
  }

  #toSpool(text) {
    this.#try(() => fs.writeFileSync(this.#spool, `${Buffer.byteLength(text)} -\n${text}\n\n`));
  }

  #try(step) {
    try {
      if (this.trouble === null) step();
    } catch (error) {
      this.trouble = `no daemon, and the spool file takes nothing: ${error.message}`;
    }
  }
}
