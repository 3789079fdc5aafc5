#ifndef TUTTI_TESTS_CONFORMANCE_CUSTOM_OPS_H_
#define TUTTI_TESTS_CONFORMANCE_CUSTOM_OPS_H_

#include "tutti/reduction.h"

// Ops as a caller could bring them. They work on the bytes of any dtype and are
// exact: the merge ops give the same result however they are grouped.

namespace tutti::conformance {

// Bytes add up to at most 255. Commutes.
MergeOp SaturatingAdd();

// A byte is a function of numbers modulo 16: its high half times the number,
// plus its low half. left (+) right is the function "right, then left". Does
// not commute.
MergeOp Compose();

// Changes every byte; twice is not the same as once or never.
FinalOp Stamp();

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_CUSTOM_OPS_H_
