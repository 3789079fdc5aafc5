#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_

#include <map>
#include <string>

namespace tutti {

// What one source (the command line, a file) says of who takes part and how,
// before it is understood: values by the names of the options, "start-timeout".
using ClusterWords = std::map<std::string, std::string>;

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_
