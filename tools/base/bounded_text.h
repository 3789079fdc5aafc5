#ifndef TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_
#define TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_

#include <cstddef>
#include <string>

namespace tutti {

// Returns the text if it has at most `max_bytes`. A longer text becomes its
// beginning, its size and its fingerprint, so that texts with the same
// beginning stay different. All processes compute the same fingerprint.
// `max_bytes` is at least 100.
std::string BoundedText(const std::string& text, size_t max_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_
