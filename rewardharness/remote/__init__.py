"""Jobs on rented hardware: what a Hugging Face Job needs, its start, its results, and the program that runs in it."""
