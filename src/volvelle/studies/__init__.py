"""The studies of papers: which there are, their inputs, running them anew, and the pages on papers."""
