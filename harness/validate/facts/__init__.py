"""Facts: what machines and the API of a guest reported, as frozen dataclasses. They judge nothing."""
