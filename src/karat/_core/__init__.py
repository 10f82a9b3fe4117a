"""What a coreset is made of: its certificate."""
