"""The routes, one file per subject. Each file's `router` is taken up by `app.create_app`."""
