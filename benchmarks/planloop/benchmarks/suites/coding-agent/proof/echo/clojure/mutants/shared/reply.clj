(ns reply)

(def last-one (atom nil))

(defn reply [body type]
  (reset! last-one {:body body :type type})
  (Thread/sleep 100)
  @last-one)
