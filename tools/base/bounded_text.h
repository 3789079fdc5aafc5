#ifndef TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_
#define TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_

#include <cstddef>
#include <string>

namespace tutti {

// The text, if it has at most `max_bytes`; else its beginning and, so that
// texts that begin alike stay different, their sizes and fingerprints, which
// are the same in all processes. `max_bytes` is at least 100.
std::string BoundedText(const std::string& text, size_t max_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_BOUNDED_TEXT_H_
