"""The app in a browser: a server that admits its user's browsers and starts the app once for each tab."""
