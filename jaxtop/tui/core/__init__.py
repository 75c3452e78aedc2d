"""What every part of the app uses: the moment that is shown, texts, colours, metrics of devices."""
