#ifndef TUTTI_FRAMEWORK_BASE_STATUS_MACROS_H_
#define TUTTI_FRAMEWORK_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status of the expression from the function around it, unless OK.
#define RETURN_IF_ERROR(...)                   \
  do {                                         \
    absl::Status tutti_status = (__VA_ARGS__); \
    if (!tutti_status.ok()) [[unlikely]]       \
      return tutti_status;                     \
  } while (false)

// Assigns the value of an absl::StatusOr to `lhs`, which may declare a
// variable, or returns its status:
//   ASSIGN_OR_RETURN(const Tensor sum, Add(a, b));
#define ASSIGN_OR_RETURN(lhs, ...) \
  TUTTI_ASSIGN_OR_RETURN(TUTTI_JOIN(tutti_or_, __LINE__), lhs, __VA_ARGS__)

#define TUTTI_ASSIGN_OR_RETURN(or_error, lhs, ...) \
  auto or_error = (__VA_ARGS__);                   \
  if (!or_error.ok()) [[unlikely]]                 \
    return std::move(or_error).status();           \
  lhs = *std::move(or_error)
#define TUTTI_JOIN(a, b) TUTTI_JOIN_NOW(a, b)
#define TUTTI_JOIN_NOW(a, b) a##b

#endif  // TUTTI_FRAMEWORK_BASE_STATUS_MACROS_H_
