"""The bundled GPT pretraining program (FSDP2), the reference implementation of PROTOCOL.md's trainer side."""
