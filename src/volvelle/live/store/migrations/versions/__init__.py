"""One module for each version of the store; a version once released is never changed."""
