"""What is known of models and cards: by name, or out of a config.json."""
