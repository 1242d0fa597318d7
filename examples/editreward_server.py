"""Serve EditReward (github.com/TIGER-AI-Lab/EditReward, transformers, one GPU) as a judge: `http:URL#-3..2`.

    git clone https://github.com/TIGER-AI-Lab/EditReward        # its README lists the packages; it is no package itself
    PYTHONPATH=EditReward python editreward_server.py CONFIG.yaml CHECKPOINT_FOLDER --port 8100
    rh score DATASET --judge http:http://127.0.0.1:8100#-3..2

Its rewards are usually between -3 and 2, hence the range. The server ran with the code of the authors (commit edb027e,
transformers 4.57, torch 2.5) and a tiny model with random weights on the CPU, and has not been run with their weights.
"""

import argparse
import base64
import io
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image

Score = Callable[[str, Image.Image, Image.Image], float]
"""Instruction, source and edit to a reward."""
MAX_BODY = 64_000_000


class EditReward:
    """The model of the authors. Its second output is an uncertainty, and no second reward."""

    def __init__(self, config: str, checkpoint: str, device: str) -> None:
        import torch
        from EditReward import EditRewardInferencer

        how = {"reward_dim": "overall_detail", "rm_head_type": "ranknet_multi_head"}
        self.torch, self.lock = torch, threading.Lock()
        self.model = EditRewardInferencer(config_path=config, checkpoint_path=checkpoint, device=device, **how)

    def __call__(self, instruction: str, source: Image.Image, edited: Image.Image) -> float:
        """Score an edit."""
        with self.lock, self.torch.no_grad():
            rewards = self.model.reward(prompts=[instruction], image_src=[source], image_paths=[edited])
        return float(rewards[0][0])


def make_server(score: Score, port: int) -> ThreadingHTTPServer:
    """Return a server of `POST /score` on this machine. What cannot be scored is an error, never a number."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size) if size <= MAX_BODY else b""
            try:
                asked = json.loads(body)
                images = [Image.open(io.BytesIO(base64.b64decode(asked[name]))) for name in ("source", "edited")]
                result = {"reward": score(asked["instruction"], *(image.convert("RGB") for image in images))}
            except Exception as error:
                result = {"error": {"message": f"{type(error).__name__}: {error}"}}
            reply = json.dumps({"results": [result]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("checkpoint")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    make_server(EditReward(options.config, options.checkpoint, options.device), options.port).serve_forever()
