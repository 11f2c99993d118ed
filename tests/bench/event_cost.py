# SPDX-License-Identifier: Apache-2.0
"""What an event costs in instructions, stage by stage, held against what is written down.

    event_cost.py PROGRAM BUILD KEPT [--keep]

Callgrind counts two runs of PROGRAM (relay_event_cost) that differ in the number of turns alone; the difference is the
turns' own cost. Fails when a stage moved by more than a tenth, in either direction: what became cheaper is to be written
down as well, with --keep. BUILD names compiler and flags; instructions of another build, or of a processor with other
vector instructions, cannot be compared, and then the test is skipped (status 77).
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EVENTS_A_TURN = 23
FEW, MANY = 4, 24
TOLERANCE = 0.10
STAGES = {
    "decode": "relay::layout::EventDecoder::decode(",
    "session": "relay::recorder::Recorder::handle(",
    "journal": "relay::recorder::Journal::write(",
    "apply": "relay::recorder::Volume::enqueue(",
    "seal": "relay::recorder::Volume::seal_step(",
}


def count(program, turns):
    """Instructions of each stage, with all that it calls."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory, "out")
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, str(turns)],
            check=True, capture_output=True, text=True)
        table = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
            check=True, capture_output=True, text=True).stdout
    counts = {}
    for stage, function in STAGES.items():
        found = [line for line in table.splitlines() if f":{function}" in line]
        if not found:
            sys.exit(f"event_cost: {function}…) is not called any more: name what does its work now")
        counts[stage] = max(int(re.match(r"\s*([\d,]+)", line)[1].replace(",", "")) for line in found)
    return counts


def processor():
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return "avx2" if re.search(r"^flags\b.*\bavx2\b", flags, re.M) else "other"


def main():
    program, build, kept_path = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    keep = "--keep" in sys.argv[4:]
    if not shutil.which("callgrind_annotate"):
        print("event_cost: SKIPPED: valgrind is not installed")
        return 77
    build = f"{build}, {processor()}"
    kept = json.loads(kept_path.read_text())
    if not keep and kept["build"] != build:
        print(f"event_cost: SKIPPED: written down are figures of «{kept['build']}», this is «{build}»")
        return 77
    few, many = count(program, FEW), count(program, MANY)
    events = (MANY - FEW) * EVENTS_A_TURN
    measured = {stage: round((many[stage] - few[stage]) / events) for stage in STAGES}
    failed = False
    print(f"instructions an event, {events} events")
    for stage, now in measured.items():
        before = kept["instructions"].get(stage, now)
        moved = abs(now - before) > TOLERANCE * before
        failed = failed or moved
        print(f"  {stage:8} {now:7}   written down {before:7}{'   MOVED' if moved else ''}")
    if keep:
        kept_path.write_text(json.dumps({"build": build, "instructions": measured}, indent=2) + "\n")
        return 0
    return 1 if failed else 0


sys.exit(main())
