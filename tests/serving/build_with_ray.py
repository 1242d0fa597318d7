"""Has Ray read the configuration of a RayService and build its application: `build_with_ray.py RESOURCE RELEASE`."""

import sys
from pathlib import Path

import yaml
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
from ray.serve.schema import ServeDeploySchema

from rewardharness.serving.ray_engine import build_application


def main() -> None:
    resource, release = sys.argv[1:]
    config = yaml.safe_load(yaml.safe_load(Path(resource).read_text("utf-8"))["spec"]["serveConfigV2"])
    [application] = ServeDeploySchema.model_validate(config).applications
    built = call_user_app_builder_with_args_if_necessary(build_application, {"release": release})
    names = [each.name for each in application.deployments]
    assert application.import_path == f"{build_application.__module__}:{build_application.__name__}"
    sys.stdout.write(f"{built._bound_deployment.name} {names}\n")


if __name__ == "__main__":
    main()
