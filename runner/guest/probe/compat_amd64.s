#include "textflag.h"

// func int80(nr, a, b uint32) (ret int32)
TEXT ·int80(SB), NOSPLIT, $0-20
	MOVL nr+0(FP), AX
	MOVL a+4(FP), BX
	MOVL b+8(FP), CX
	XORL DX, DX
	INT  $0x80
	MOVL AX, ret+16(FP)
	RET
