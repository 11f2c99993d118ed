# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of scripts/bench: medians of the lines that relay_compare printed."""

import argparse
import json
import statistics
from collections import defaultdict

NAMES = {
    "bare": "bare pwrite + fdatasync, all clients in one (the limit)",
    "socket": "a log and a file behind a socket, nothing else (the limit of a server)",
    "relay": "**agent-relayd**",
    "redis-always": "Redis Streams, `appendfsync always`",
    "postgres": "PostgreSQL",
    "sqlite-full": "SQLite WAL `FULL`, a connection a client",
    "sqlite-batched": "SQLite WAL `FULL`, one writer batching",
    "files": "files: tmp, fsync, rename, directory sync",
    "jsonl-sync": "JSON lines, fdatasync",
    "redis-everysec": "*not durable:* Redis Streams, `everysec`",
    "sqlite-normal": "*not durable:* SQLite WAL `NORMAL`",
    "jsonl": "*not durable:* JSON lines, no sync",
}
SHORT = {
    "bare": "the disk's limit",
    "socket": "a server's limit",
    "relay": "agent-relayd",
    "redis-always": "Redis, always",
    "postgres": "PostgreSQL",
    "sqlite-full": "SQLite FULL",
    "sqlite-batched": "SQLite, batched",
    "files": "atomic files",
    "jsonl-sync": "JSON lines",
}
WAITS = {
    "event": "every event is waited for; acks are those of a chunk of output",
    "turn": "only the end of a turn is waited for; acks are those of a whole turn",
    "open": "20 events a second from every client, whether answers come or not",
}


def read(path):
    """(mode, clients, contender) -> field -> median."""
    found = defaultdict(lambda: defaultdict(list))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            key = (one.pop("mode"), one.pop("clients"), one.pop("contender"))
            for field, value in one.items():
                found[key][field].append(value)
    return {
        key: {field: statistics.median(values) for field, values in fields.items()}
        for key, fields in found.items()
    }


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def thousands(value):
    if value is None:
        return "–"
    return f"{value / 1000:,.1f} k" if value < 100_000 else f"{value / 1000:,.0f} k"


def print_table(medians, mode):
    clients = sorted({count for known, count, _ in medians if known == mode})
    print(f"\n### Mode `{mode}`: {WAITS[mode]}\n")
    for title, cell in (
        ("events/s", lambda one: thousands(one.get("events_per_s"))),
        ("ack p50 / p99, µs", lambda one: number(one["p50_us"]) + " / " + number(one["p99_us"])),
        (
            "CPU µs an event, user + kernel",
            lambda one: number(one.get("user_us"), 1) + " + " + number(one.get("system_us"), 1),
        ),
        ("syncs an event", lambda one: number(one.get("syncs_per_event"), 3)),
        (
            "bytes written to the device a byte of payload",
            lambda one: number(one.get("device_bytes_per_byte"), 1),
        ),
        ("resident, MiB", lambda one: number(one.get("rss_mib"))),
    ):
        print(f"| {title} | " + " | ".join(f"{count}" for count in clients) + " |")
        print("|---|" + "---:|" * len(clients))
        for contender, name in NAMES.items():
            cells = [medians.get((mode, count, contender)) for count in clients]
            if any(cells):
                print(f"| {name} | " + " | ".join(cell(one) if one else "" for one in cells) + " |")
        print()


def print_ratios(medians):
    clients = sorted({count for mode, count, _ in medians if mode == "event"})
    rows = []
    for contender in ("sqlite-full", "sqlite-batched", "redis-always", "postgres", "files", "redis-everysec", "socket"):
        cells = []
        for count in clients:
            ours, theirs = (medians.get(("event", count, who)) for who in ("relay", contender))
            cells.append(f"{ours['events_per_s'] / theirs['events_per_s']:.2f}" if ours and theirs else "")
        if any(cells):
            rows.append((f"events/s over {NAMES[contender]}", cells))
    for field in ("p50_us", "p99_us"):
        for mode in ("event", "open"):
            cells = []
            for count in clients:
                ours = medians.get((mode, count, "relay"))
                # The open load comes one by one, so a bare sync of one event is the measure there.
                bare = medians.get(("event", count if mode == "event" else 1, "bare"))
                cells.append(f"{ours[field] / bare[field]:.2f}" if ours and bare else "")
            if any(cells):
                rows.append((f"{field[:3]} of an ack over that of a bare sync, mode `{mode}`", cells))
    if rows:
        print("### Ratios\n\n| | " + " | ".join(str(count) for count in clients) + " |")
        print("|---|" + "---:|" * len(clients))
        for name, cells in rows:
            print(f"| {name} | " + " | ".join(cells) + " |")


def draw(medians, path):
    """Bars of events/s in mode `event`, a group a number of clients, on a logarithmic scale."""
    clients = [c for c in (1, 8, 64, 256) if ("event", c, "relay") in medians]
    shown = [c for c in SHORT if any(("event", count, c) in medians for count in clients)]
    bar, gap, left, width = 15, 22, 150, 560
    top = 34
    highest = max(medians[("event", c, w)]["events_per_s"] for c in clients for w in shown
                  if ("event", c, w) in medians)

    import math
    low = 2.5  # 10^2.5 events/s at the left edge

    def length(value):
        return max(2.0, (math.log10(value) - low) / (math.log10(highest) - low) * width)

    parts = []
    y = top
    for count in clients:
        parts.append(f'<text x="10" y="{y + 12}" class="group">{count} client{"s" if count > 1 else ""}</text>')
        y += bar + 4
        for who in shown:
            one = medians.get(("event", count, who))
            if not one:
                continue
            value = one["events_per_s"]
            kind = "ours" if who == "relay" else "limit" if who in ("bare", "socket") else "peer"
            parts.append(f'<text x="{left - 8}" y="{y + 11}" class="name">{SHORT[who]}</text>')
            parts.append(f'<rect x="{left}" y="{y}" width="{length(value):.0f}" height="{bar - 2}" class="{kind}"/>')
            parts.append(f'<text x="{left + length(value) + 6:.0f}" y="{y + 11}" class="value">{thousands(value)}</text>')
            y += bar
        y += gap
    height = y
    with open(path, "w", encoding="utf-8") as out:
        out.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 80} {height}" '
            'font-family="sans-serif" font-size="11">\n'
            "<style>text{fill:#57606a}.name{text-anchor:end}.group{font-weight:bold;font-size:12px}"
            ".ours{fill:#1f883d}.peer{fill:#afb8c1}.limit{fill:none;stroke:#8c959f;stroke-dasharray:3 2}"
            "</style>\n"
            '<text x="10" y="16" class="group">Durable events a second, every one waited for '
            "(logarithmic)</text>\n" + "\n".join(parts) + "\n</svg>\n"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results")
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    medians = read(arguments.results)
    for mode in WAITS:
        if any(known == mode for known, _, _ in medians):
            print_table(medians, mode)
    print_ratios(medians)
    if arguments.picture:
        draw(medians, arguments.picture)


main()
