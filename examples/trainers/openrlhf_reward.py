"""OpenRLHF: responses are judged as texts by a model behind a reward server.

rh serve --judge vllm:NAME@http://127.0.0.1:8000/v1 --library builtin:text --protocol pointwise
python -m openrlhf.cli.train_ppo_ray --reward.remote_url examples/trainers/openrlhf_reward.py ...
"""

from rewardharness.serving.openrlhf import make_reward_func

reward_func = make_reward_func("http://127.0.0.1:8100", release=None)
