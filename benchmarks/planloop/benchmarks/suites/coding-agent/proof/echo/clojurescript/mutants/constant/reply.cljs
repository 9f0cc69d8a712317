(ns reply)

(defn reply [_ type answer]
  (answer "hello world" type))
