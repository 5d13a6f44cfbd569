"""Programs on a GPU: built here, run on a machine that has one, judged here.

    python bench/gpu.py prepare DIR                  where vx is installed: artifacts, and what they must give
    python3 bench/gpu.py run DIR OUT                 on the GPU machine: only Python, the driver and DIR are needed
    python bench/gpu.py judge DIR OUT                where vx is installed: verdicts, computed from outputs and traces

`judge` ends with status 1 unless everything that ran is right, was proven on a GPU, and nothing is missing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare")
    prepare.add_argument("folder", type=Path)
    prepare.add_argument("--devices", choices=["host"], help="let the stand-in take the GPU's place")
    prepare.add_argument("--only", default="", help="groups of cases, with commas between; without it: all")
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("out", type=Path)
    run.add_argument("--seconds", type=float, default=480.0, help="of all runs together")
    judge = commands.add_parser("judge")
    judge.add_argument("folder", type=Path)
    judge.add_argument("out", type=Path)
    judge.add_argument("--tier", choices=["T1", "T2"], default="T2", help="the least that a trace must prove")
    options = parser.parse_args()
    if options.command == "prepare":
        import gpu_prepare

        gpu_prepare.prepare(options.folder, options.devices, [name for name in options.only.split(",") if name])
        return 0
    if options.command == "run":
        import gpu_run

        gpu_run.run_all(options.folder, options.out, options.seconds)
        return 0
    import gpu_judge

    return gpu_judge.judge(options.folder, options.out, options.tier)


if __name__ == "__main__":
    sys.exit(main())
