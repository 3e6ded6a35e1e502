"""What a model is: its shape, its weights on disk or at random, its tokenizer. How it is run is the engine's."""
