"""Client for a persistent Python machine in a browser sandbox, over the control protocol."""

from .aio import AsyncControlRequest, AsyncPyProcClient
from .client import ControlRequest, PyProcClient
from .models import Attachment, ControlError, ControlResult
from .perception import AsyncPerceptionClient, PerceptionClient, PerceptionEntity, PerceptionQueryResult
from .protocol import (
    CONTROL_ATTACHMENT_CHUNK_BYTES,
    CONTROL_MAX_ATTACHMENT_BYTES,
    CONTROL_MAX_FRAME_BYTES,
    CONTROL_PROTOCOL,
    CONTROL_VERSION,
    ControlProtocolError,
    controlBase,
    decodeFrame,
    encodeFrame,
    validateFrame,
)

__all__ = [
    "CONTROL_ATTACHMENT_CHUNK_BYTES",
    "CONTROL_MAX_ATTACHMENT_BYTES",
    "CONTROL_MAX_FRAME_BYTES",
    "CONTROL_PROTOCOL",
    "CONTROL_VERSION",
    "AsyncControlRequest",
    "AsyncPerceptionClient",
    "AsyncPyProcClient",
    "Attachment",
    "ControlError",
    "ControlProtocolError",
    "ControlRequest",
    "ControlResult",
    "PerceptionClient",
    "PerceptionEntity",
    "PerceptionQueryResult",
    "PyProcClient",
    "controlBase",
    "decodeFrame",
    "encodeFrame",
    "validateFrame",
]
