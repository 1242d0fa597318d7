"""Images and reasoning of one example, wherever the page shows one."""
