#ifndef TUTTI_SCHEDULE_SIMULATE_PORTS_H_
#define TUTTI_SCHEDULE_SIMULATE_PORTS_H_

#include <cstddef>
#include <vector>

namespace tutti {

// Simulates one direction of all links of all classes. Passages of one link go
// one after the other, in the order of their start times. Times are
// picoseconds.
//
// Not thread-safe. Takes time in proportion to the number of passages, and to
// sort the passages of each port. The number of ports does not matter.
class Ports {
 public:
  // Each class of links has ports 0 to num_ports - 1.
  Ports(int num_classes, int num_ports)
      : num_ports_(static_cast<size_t>(num_ports)),
        ports_(static_cast<size_t>(num_classes) * num_ports_) {}

  void Add(int link_class, int port, double start, double duration) {
    const size_t index = IndexOf(link_class, port);
    if (ports_[index].num_waiting++ == 0) in_use_.push_back(index);
    waiting_.push_back({index, {start, duration}});
  }

  // Lets all passages pass that were added since the last call.
  void Pass();

  // Returns the time at which all passages of the port have passed.
  double FreeAt(int link_class, int port) const {
    return ports_[IndexOf(link_class, port)].free;
  }

 private:
  struct Passage {
    double start;
    double duration;
  };
  struct Waiting {
    size_t port;
    Passage passage;
  };
  struct Port {
    double free = 0;
    size_t num_waiting = 0;
    size_t end = 0;  // End of its passages in by_port_.
  };

  size_t IndexOf(int link_class, int port) const {
    return static_cast<size_t>(link_class) * num_ports_ +
           static_cast<size_t>(port);
  }

  void PlaceByPort();

  const size_t num_ports_;  // Ports of each class.
  std::vector<Port> ports_;
  std::vector<size_t> in_use_;  // Ports that have passages, each once.
  std::vector<Waiting> waiting_;
  std::vector<Passage> by_port_;  // Sorted by port, in order of in_use_.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_PORTS_H_
