(ns reply)

(defn reply [_ type]
  {:body (.getBytes "hello world") :type type})
