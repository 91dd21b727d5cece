// Names that a compiler has mangled.
static volatile unsigned long work;

namespace space {
template <typename T> struct Shape {
    __attribute__((noinline)) void turn(T degrees) {
        for (;;)
            work += static_cast<unsigned long>(degrees);
    }
};
} // namespace space

int main() {
    space::Shape<int> shape;
    shape.turn(1);
    return static_cast<int>(work);
}
