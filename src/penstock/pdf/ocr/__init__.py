"""Text in pictures of pages. All of it but `found` and `settings` runs in sandbox workers that keep the models warm."""
