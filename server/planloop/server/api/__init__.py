"""Operations of the HTTP API, the models of their bodies and answers, and OpenAPI."""
