"""llama.cpp as a peer: a process of its own that decodes greedily on request.

Run by `cpu.py`. One JSON line in, `{"ids": bool}`, one JSON line out: `seconds` of the decode steps, how many
`steps`, and, where asked for (in a run that is not timed), the `ids` and by how much each won (`margins`).
Weights are loaded, faulted in and warmed up before the first line. Timing is llama.cpp's own: its clock
starts when the first token is there, so N tokens take N - 1 steps; its server's loop adds about 0.01 ms a token.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import xllamacpp

BOS = 1


def open_server(path: str, threads: int, flash: bool, kv: str, positions: int) -> Any:
    """A server for one sequence of `positions`, weights in memory of its own (no memory map)."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.n_ctx = params.n_batch = positions
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{kv.upper()}")
    params.flash_attn_type = getattr(
        xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{'ENABLED' if flash else 'DISABLED'}"
    )
    params.fit_params = False
    params.warmup = True
    params.cont_batching = False
    params.verbosity = -1
    return xllamacpp.Server(params)


def decode(server: Any, positions: int, with_ids: bool) -> dict[str, Any]:
    """Greedy decoding from BOS until `positions` are reached."""
    request: dict[str, Any] = {
        "prompt": [BOS],
        "n_predict": positions - 1,
        "temperature": 0.0,
        "ignore_eos": True,
        "cache_prompt": False,
        "samplers": ["temperature"],
    }
    if with_ids:
        request |= {"logprobs": 2, "n_probs": 2}
    answer = server.handle_completions(request)
    timings = answer["timings"]
    result = {"seconds": timings["predicted_ms"] / 1000, "steps": timings["predicted_n"] - 1}
    if with_ids:
        tokens = answer["choices"][0]["logprobs"]["content"]
        result["ids"] = [BOS, *(token["id"] for token in tokens)]
        tops = [token["top_logprobs"] for token in tokens]
        result["margins"] = [top[0]["logprob"] - top[1]["logprob"] for top in tops]
    return result


def main() -> None:
    path, threads, flash, kv, positions = sys.argv[1:]
    server = open_server(path, int(threads), flash == "flash", kv, int(positions))
    decode(server, int(positions), with_ids=False)
    print(
        json.dumps({"version": xllamacpp.__version__, "built_for": xllamacpp.get_system_info().strip(" |")}), flush=True
    )
    for line in sys.stdin:
        print(json.dumps(decode(server, int(positions), json.loads(line)["ids"])), flush=True)


if __name__ == "__main__":
    main()
