"""The bundled GPT pretraining program (FSDP2), the reference for the trainer's side of sentinel/client/PROTOCOL.md."""
