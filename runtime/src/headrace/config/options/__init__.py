"""The options themselves, one module a topic. `headrace.config.registry` collects them."""
