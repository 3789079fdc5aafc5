#ifndef TUTTI_TOOLS_BASE_VERSION_H_
#define TUTTI_TOOLS_BASE_VERSION_H_

namespace tutti {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_VERSION_H_
