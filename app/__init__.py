"""The web app: tabs over the services of this project, and nothing else."""
