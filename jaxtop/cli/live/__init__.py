"""What a command needs that follows a live run in the app: frames, rewind, recordings, requests."""
