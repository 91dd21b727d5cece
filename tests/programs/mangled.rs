//! A name that the Rust compiler has mangled.
pub mod space {
    pub struct Shape<T>(pub T);

    impl Shape<u64> {
        #[inline(never)]
        pub fn turn(&self) {
            loop {
                std::hint::black_box(self.0);
            }
        }
    }
}

fn main() {
    space::Shape(1u64).turn();
}
